-- Compares and deletes the lock of a waiter (R9). KEYS: as ask_fair.lua, but
-- without the highest ticket. ARGV: the value, the waiter, and 1 if it also
-- leaves the queue. Returns as release.lua does.
local was = 0
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
elseif value == ARGV[1] then
  redis.call('DEL', KEYS[1], KEYS[4])
  was = 1
end
if ARGV[3] == '1' then
  redis.call('ZREM', KEYS[2], ARGV[2])
  redis.call('ZREM', KEYS[3], ARGV[2])
  redis.call('DEL', KEYS[5])
end
return was
