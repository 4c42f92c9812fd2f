-- Makes a writer a reader (docs/internals/safety.md). KEYS: as read.lua. ARGV:
-- the writer's value, the reader's, and its TTL in ms. Returns 1 if the
-- writer's key had the value, and now its reader is in, and other readers may
-- come; and 0, with nothing changed, if not.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  return 0
end
-- This comes before the ZADD: so a downgrade succeeds at maxmemory, as an
-- extension does. See extend_read.lua.
local gone = redis.pcall('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
if type(gone) == 'table' then
  if string.find(gone.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return gone -- the error
end
redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[2])
local stays, rest = ARGV[3] + 1000, redis.call('PTTL', KEYS[2])
local new = rest == -1 and redis.call('ZCARD', KEYS[2]) == 1
if rest == -1 and not new then -- PERSIST took its TTL, which others need
  stays = math.max(stays, redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2] - now + 1000)
end
if rest < stays then
  redis.call('PEXPIRE', KEYS[2], stays + 1000)
end
redis.call('DEL', KEYS[1], KEYS[3])
return 1
