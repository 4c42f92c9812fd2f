-- Lets a writer in, unless another has the lock or there are readers.
-- KEYS: as read.lua. ARGV: the writer's value; its TTL in ms; the value of the
-- reader that becomes the writer and stays a reader, or ''; and for how many ms
-- new readers are kept out if old ones are in the way, or 0. Returns 1 if it is
-- in, and otherwise a text, as acquire_all.lua does. The mark that keeps new
-- readers out stops no writer.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  value = ''
end
if value then
  return '1 ' .. (#value <= 100 and value or '')
end
local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if type(gone) == 'table' then
  if string.find(gone.err, 'WRONGTYPE', 1, true) then
    return '2 '
  end
  return gone -- the error
end
for _, reader in ipairs(redis.call('ZRANGE', KEYS[2], 0, 1)) do
  if reader ~= ARGV[3] then
    if ARGV[4] ~= '0' then
      redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[4])
    end
    return '2 ' .. (#reader <= 100 and reader or '')
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
redis.call('DEL', KEYS[3])
return 1
