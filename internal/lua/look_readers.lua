-- Returns who reads, and changes nothing. KEYS: the readers, as read.lua has
-- them, and the mark of a writer that waits. ARGV: how many readers to pass
-- over, of those that stay the longest. Returns nothing if there is no set of
-- readers, and otherwise 1 if there is the mark, the size of the set, and of
-- each of the next 20 that is still in: 0, the rest of its time in ms, and its
-- value, or the digest of a long one, which is no value of ours (R32).
--
-- Only GET is asked of a key that may be another program's: this user may lack
-- the rights for sets, which it needs if there is one.
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
local last = -1 - ARGV[1]
local all = redis.call('ZRANGE', KEYS[1], last - 19, last, 'WITHSCORES')
local said = {redis.pcall('GET', KEYS[2]) and 1 or 0, size}
for i = #all - 1, 1, -2 do
  local rest = math.min(all[i + 1] - now, 9007199254740991)
  if rest > 0 then
    said[#said + 1] = 0
    said[#said + 1] = rest
    said[#said + 1] = #all[i] <= 160 and all[i] or redis.sha1hex(all[i])
  end
end
return said
