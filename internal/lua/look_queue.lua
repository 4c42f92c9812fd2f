-- Returns who waits for a fair lock, and changes nothing. KEYS: the queue, the
-- leases, the lock, and the waiter that has the lock, as ask_fair.lua has them.
-- ARGV: how many waiters to pass over.
-- Returns nothing if there is no queue, and otherwise 0, the size of the queue,
-- and of each of the next 20 whose lease has not ended, but for the one that
-- has the lock: its ticket, the rest of its lease in ms, and its name, or the
-- digest of a long one, which is no name of ours (R32).
--
-- Only GET is asked of a key that may be another program's: see
-- look_readers.lua.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.pcall('GET', KEYS[1])
if type(found) ~= 'table' then
  return false -- a string is not ours
end
if not string.find(found.err, 'WRONGTYPE', 1, true) then
  return found -- the error
end
local size = redis.pcall('ZCARD', KEYS[1])
if type(size) == 'table' then
  return size -- the error
end
local holder = redis.pcall('GET', KEYS[3]) and redis.pcall('GET', KEYS[4])
local all = redis.call('ZRANGE', KEYS[1], ARGV[1], ARGV[1] + 19, 'WITHSCORES')
local said = {0, size}
for i = 1, #all, 2 do
  local rest = (redis.call('ZSCORE', KEYS[2], all[i]) or 0) - now
  if all[i] ~= holder and rest > 0 then
    said[#said + 1] = math.max(0, math.min(all[i + 1], 9007199254740991))
    said[#said + 1] = math.min(rest, 9007199254740991)
    said[#said + 1] = #all[i] <= 100 and all[i] or redis.sha1hex(all[i])
  end
end
return said
