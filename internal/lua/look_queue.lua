-- Returns who waits for a fair lock, and changes nothing. KEYS: the queue, the
-- lock, and the waiter that has the lock, as ask_fair.lua has them. ARGV: what
-- the names of all leases begin with, and how many waiters to pass over.
-- Returns nothing if there is no queue, and otherwise 0, the size of the queue,
-- and of each of the next 20 whose lease has not ended, but for the one that
-- has the lock: its ticket, the rest of its lease in ms, and its name, or the
-- digest of a long one, which is no name of ours (R32).
--
-- Only GET is asked of a key that may be another program's: see
-- look_readers.lua.
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
local holder = redis.pcall('GET', KEYS[2]) and redis.pcall('GET', KEYS[3])
local all = redis.call('ZRANGE', KEYS[1], ARGV[2], ARGV[2] + 19, 'WITHSCORES')
local said = {0, size}
for i = 1, #all, 2 do
  local rest = redis.call('PTTL', ARGV[1] .. all[i])
  if all[i] ~= holder and rest ~= -2 then
    said[#said + 1] = math.max(0, math.min(all[i + 1], 9007199254740991))
    said[#said + 1] = rest
    said[#said + 1] = #all[i] <= 100 and all[i] or redis.sha1hex(all[i])
  end
end
return said
