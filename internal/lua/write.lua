-- Lets a writer in, unless another has the lock or there are readers.
-- KEYS: as read.lua. ARGV: the writer's value; its TTL in ms; the value of the
-- reader that becomes the writer and stays a reader, or ''; and for how many ms
-- new readers are kept out if old ones are in the way, or 0. Returns 1 if it is
-- in, and otherwise a text, as acquire_all.lua does: of several readers, it
-- names the one that stays the longest. The mark that keeps new readers out
-- stops no writer. Readers that wait are told of each change of the mark. So it
-- is set again only when a quarter of it has passed, and stays when the writer
-- is in: its release deletes it.
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  value = ''
end
if value then
  return '1 ' .. (#value <= 160 and value or '')
end
-- Readers whose time is over are removed after the grant: at maxmemory, a
-- server refuses a script's first write only.
local last = redis.pcall('ZRANGE', KEYS[2], '-2', '-1', 'WITHSCORES')
if last.err then
  if string.find(last.err, 'WRONGTYPE', 1, true) then
    return '2 '
  end
  return last -- the error
end
local now
if #last > 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
for i = #last - 1, 1, -2 do
  local reader = last[i]
  if reader ~= ARGV[3] and tonumber(last[i + 1]) > now then
    if ARGV[4] ~= '0' and redis.call('PTTL', KEYS[3]) < ARGV[4] * 3 / 4 then
      redis.call('SET', KEYS[3], ARGV[1], 'PX', ARGV[4])
    end
    return '2 ' .. (#reader <= 160 and reader or '')
  end
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if #last > 0 then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
end
return 1
