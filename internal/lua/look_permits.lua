-- Returns which permits of a semaphore are taken, and changes nothing.
-- KEYS: the record of how many there are, as acquire_permit.lua has it. ARGV:
-- what the names of all permits begin with, and the number of the first that is
-- asked for. Returns nothing if there is no record, and otherwise the least and
-- the most of the record, and of each of 20 permits that is taken: its number,
-- the rest of its time in ms, and its value, or the digest of a long one, which
-- is no value of ours (R32).
local record = redis.pcall('GET', KEYS[1])
if type(record) == 'table' then
  return record -- the error
end
local least, most = string.match(record or '', '^(%d+) (%d+)$')
least, most = tonumber(least), tonumber(most)
if not least or least < 1 or most < least or most > 1024 then
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
