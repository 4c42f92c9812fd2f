-- Lengthens a reader's time (R10). KEYS: the readers, as read.lua has them.
-- ARGV: the reader's value, and the TTL in ms. Returns 1 if the reader is in,
-- and 0 if its time is over, or it was never in. A time is never shortened.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends = redis.pcall('ZSCORE', KEYS[1], ARGV[1])
if type(ends) == 'table' and ends.err then
  if string.find(ends.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return ends -- the error
end
if not ends or tonumber(ends) <= now then
  return 0
end
if tonumber(ends) < now + ARGV[2] then
  -- At maxmemory, a server refuses ZADD, but only as a script's first write.
  -- This one it never refuses, even if it removes nothing (R25).
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1])
end
local stays, rest = ARGV[2] + 1000, redis.call('PTTL', KEYS[1])
if rest == -1 then -- PERSIST took its TTL, which others need
  stays = math.max(stays, redis.call('ZRANGE', KEYS[1], '-1', '-1', 'WITHSCORES')[2] - now + 1000)
end
if rest < stays then
  redis.call('PEXPIRE', KEYS[1], stays + 1000)
end
return 1
