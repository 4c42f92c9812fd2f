-- Deletes a key whose value is the one that was shown: 1 when it did, 0 when there is no key any more, -1 when another value is
-- there, or no string.
local value = redis.pcall('GET', KEYS[1])
if value == false then
  return 0
end
if value == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- it could not be read: the error that says why
end
return -1
