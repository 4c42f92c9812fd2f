-- Compares and deletes (R9). Returns 1 if the key was ours, and 0 if it was
-- another's, missing or not a string.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- the error
end
return 0
