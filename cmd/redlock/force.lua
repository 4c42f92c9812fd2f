-- Deletes the key if it has the given value. Returns 1 if it did, 0 if there is
-- no key, and -1 if there is another value or not a string.
local value = redis.pcall('GET', KEYS[1])
if value == false then
  return 0
end
if value == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- the error
end
return -1
