-- Compares and lengthens a permit (R10), and moves the end of the client's
-- number in the record of how many permits there are.
-- KEYS: the permit, and the record, as acquire_permit.lua has it.
-- ARGV: those of extend.lua, and how many permits there are by this client.
-- Returns as extend.lua does.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
local ttl = math.max(rest, tonumber(ARGV[2]))
if rest == -1 then
  ttl = tonumber(ARGV[3])
end
-- PEXPIRE comes first, also where nothing is left to lengthen: after it, a
-- server at maxmemory executes ZADD too (R25).
redis.call('PEXPIRE', KEYS[1], ttl)
-- A record that was lost begins anew with this number. That keeps the promise
-- for this permit, and can only refuse more than before.
redis.call('ZADD', KEYS[2], 'GT', now + ttl, ARGV[4])
local stays = ttl + 1000
rest = redis.call('PTTL', KEYS[2])
if rest == -1 then -- it is new, or PERSIST took its TTL, which others need
  stays = math.max(stays, redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] - now + 1000)
end
if rest < stays then
  redis.call('PEXPIRE', KEYS[2], stays)
end
return 1
