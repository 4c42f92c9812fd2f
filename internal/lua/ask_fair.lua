-- Asks for a lock whose callers are served in order, and takes or keeps a place
-- in its queue.
-- KEYS: the lock; the queue, a sorted set of waiters by their tickets; their
-- leases, another one, in which each has the end of its own, by this node's
-- clock in ms; the highest ticket that was let in; the waiter that has the
-- lock; and the key of this waiter, which lives as long as its lease, so that
-- the node tells the waiter behind of its end.
-- ARGV: the token's value, and the TTL in ms; the waiter, and its ticket;
-- "new", "keep", or "try" without a place in the queue; and the lease in ms.
-- Returns 1 if the lock was taken, and otherwise a text:
--   1 value        this waiter is the next, once the holder has gone
--   2 place waiter its place in the queue, in which the waiter that has the
--                  lock does not count, and the waiter before it
--   3 ticket       a later ticket, which is this one, was let in already: no
--                  place was given
-- A highest ticket above which too few are left was not let in here: something
-- else has set it, and that of the last waiter counts instead (R33).
-- Only waiters with a lease that has not ended count. A lease does not outlive
-- its waiter's last question by much. The waiter that has the lock may still be
-- in the queue. TIME goes on while a script runs: it is read once, and first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function rest(other) -- of its lease
  return (redis.call('ZSCORE', KEYS[3], other) or 0) - now
end
local waiter, ticket, mode = ARGV[3], tonumber(ARGV[4]), ARGV[5]
local known = mode ~= 'try' and redis.call('ZRANK', KEYS[2], waiter)
if mode ~= 'try' then
  local highest = tonumber(redis.call('GET', KEYS[4]) or 0)
  if highest > 9007199164740991 then
    highest = tonumber(redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] or 0)
  end
  if mode == 'new' and not known and ticket <= highest then
    return '3 ' .. string.format('%.0f', highest)
  end
  if not known then
    redis.call('ZADD', KEYS[2], ARGV[4], waiter)
  end
  -- The waiter behind is told of each renewal. So a lease is renewed only when
  -- a quarter of it has passed. Otherwise, when one asks, the whole queue does.
  if not known or rest(waiter) < ARGV[6] * 3 / 4 then
    redis.call('SET', KEYS[6], '', 'PX', ARGV[6])
    redis.call('ZADD', KEYS[3], now + ARGV[6], waiter)
    local stays = string.format('%.0f', ARGV[6] + 60000)
    redis.call('PEXPIRE', KEYS[3], stays)
    redis.call('PEXPIRE', KEYS[2], stays)
    redis.call('SET', KEYS[4], string.format('%.0f', math.max(highest, ticket)), 'PX', stays)
  end
end
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  value = ''
end
local holder = value and redis.call('GET', KEYS[5])
local rank = mode == 'try' and redis.call('ZCARD', KEYS[2]) or known or redis.call('ZRANK', KEYS[2], waiter)
local dead, ahead = {}, nil
while rank > 0 and not ahead do
  rank = rank - 1
  local at = string.format('%d', rank)
  local other = redis.call('ZRANGE', KEYS[2], at, at)[1]
  if other ~= holder then
    if rest(other) > 0 then
      ahead = other
    else
      dead[#dead + 1] = other
    end
  end
end
-- The lock is set before anything is removed: a server at maxmemory looks only
-- at the first write of a script, and refuses this one (R25).
if not ahead and not value then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  redis.call('SET', KEYS[5], waiter, 'PX', math.max(ARGV[2], ARGV[6]))
end
for _, other in ipairs(dead) do
  redis.call('ZREM', KEYS[2], other)
  redis.call('ZREM', KEYS[3], other)
end
if ahead then
  local first = holder and redis.call('ZRANK', KEYS[2], holder)
  local place = first and first < rank and rank + 1 or rank + 2
  return '2 ' .. place .. ' ' .. (#ahead <= 100 and ahead or '')
end
return value and '1 ' .. (#value <= 160 and value or '') or 1
