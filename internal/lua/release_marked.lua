-- Compares and deletes a writer's key (R9), and then the mark of one that
-- waits: the node tells the readers. KEYS: the key, and the mark. ARGV:
-- the value. Returns as release.lua does.
local value = redis.pcall('GET', KEYS[1])
if value == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[2])
  return 1
end
if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
  return value -- the error
end
return 0
