-- Lets a reader in, unless a writer has the lock or waits for it.
-- KEYS: the writer's key; the readers, a sorted set in which each has the end
-- of its time, by this node's clock in ms; and the mark of a writer that waits.
-- ARGV: the reader's value, and its TTL in ms. Returns 1 if it is in; otherwise
-- the result is a text, as acquire_all.lua has it. TIME goes on while a script
-- runs: it is read once.
for i = 1, 3, 2 do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value -- the error
    end
    value = ''
  end
  if value then
    return i .. ' ' .. (#value <= 160 and value or '')
  end
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
-- First the grant, then those whose time is over: see write.lua.
local added = redis.pcall('ZADD', KEYS[2], now + ARGV[2], ARGV[1])
if type(added) == 'table' then
  if string.find(added.err, 'WRONGTYPE', 1, true) then
    return '2 '
  end
  return added -- the error
end
-- The set outlives each of its readers by a second to two, so that not each of
-- them has to move its end.
local stays, rest = ARGV[2] + 1000, redis.call('PTTL', KEYS[2])
local new = rest == -1 and redis.call('ZCARD', KEYS[2]) == 1
if rest == -1 and not new then -- PERSIST took its TTL, which others need
  stays = math.max(stays, redis.call('ZRANGE', KEYS[2], '-1', '-1', 'WITHSCORES')[2] - now + 1000)
end
if rest < stays then
  redis.call('PEXPIRE', KEYS[2], stays + 1000)
end
if not new then
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now)
end
return 1
