-- Compare and delete (R9): 1 when the key was ours, 0 when it was not, nor even a string.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- it could not be read: the error that says why
end
return 0
