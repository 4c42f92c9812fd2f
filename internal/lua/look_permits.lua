-- Returns which permits of a semaphore are held, and changes nothing.
-- KEYS: the permits, as acquire_permit.lua has them. ARGV: the number of the
-- first that is asked for. Returns nothing if there are none, or no number of
-- permits counts, or one cannot be (R32). Otherwise it returns the least and
-- the most that count, and of each of 20 permits that is held: its number, the
-- rest of its time in ms, and its value, or the digest of a long one, which is
-- no value of ours.
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
local fields = {'how many permits there are by each client, and when the last of its ends'}
for i = 1, 20 do
  fields[i + 1] = ARGV[1] + i - 1
end
local all = redis.pcall('HMGET', KEYS[1], unpack(fields))
if all.err then
  return all -- the error
end
local least, most = 1025, 0
local alien = string.gsub(all[1] or '', '[1-9]%d*=%d+ ?', '') ~= ''
for number, till in string.gmatch(all[1] or '', '(%d+)=(%d+)') do
  alien = alien or tonumber(number) > 1024
  if tonumber(till) > now then
    least, most = math.min(least, number), math.max(most, number)
  end
end
if alien or most == 0 then
  return false
end
local said = {least, most}
for i = 2, #fields do
  local till, value = string.match(all[i] or '', '^(%d+) (.*)$')
  if till and tonumber(till) > now then
    said[#said + 1] = fields[i]
    said[#said + 1] = till - now
    said[#said + 1] = #value <= 160 and value or redis.sha1hex(value)
  end
end
return said
