-- Returns which permits of a semaphore are taken, and changes nothing.
-- KEYS: the record of how many there are, as acquire_permit.lua has it. ARGV:
-- what the names of all permits begin with, and the number of the first that is
-- asked for. Returns nothing if there is no record, or no number in it counts,
-- and otherwise the least and the most that count, and of each of 20 permits
-- that is taken: its number, the rest of its time in ms, and its value, or the
-- digest of a long one, which is no value of ours (R32).
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
local record = redis.pcall('ZRANGE', KEYS[1], 0, 1024, 'WITHSCORES')
if record.err then
  return record -- the error
end
local least, most = 1025, 0
for i = 1, #record, 2 do
  local permits = tonumber(string.match(record[i], '^[1-9]%d*$'))
  local ends = tonumber(record[i + 1])
  if not permits or permits > 1024 or not ends then
    return false
  end
  if ends > now then
    least, most = math.min(least, permits), math.max(most, permits)
  end
end
if most == 0 then
  return false
end
local first, names = tonumber(ARGV[2]), {}
for n = first, math.min(first + 20, most) - 1 do
  names[#names + 1] = ARGV[1] .. n
end
local said = {least, most}
if #names == 0 then
  return said
end
local values = redis.call('MGET', unpack(names))
for i = 1, #names do
  local value = values[i]
  if value then
    said[#said + 1] = first + i - 1
    said[#said + 1] = redis.call('PTTL', names[i])
    said[#said + 1] = #value <= 100 and value or redis.sha1hex(value)
  end
end
return said
