-- Compares and lengthens a permit (R10), and moves the end of the client's
-- number of permits.
-- KEYS: the permits, as acquire_permit.lua has them. ARGV: the value, and the
-- TTL in ms; how many permits there are by this client; and the number of this
-- one. Returns as extend.lua does. A time is never shortened.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local record = 'how many permits there are by each client, and when the last of its ends'
local found = redis.pcall('HMGET', KEYS[1], record, ARGV[4])
if found.err then
  if string.find(found.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return found -- the error
end
local till, value = string.match(found[2] or '', '^(%d+) (.*)$')
if value ~= ARGV[1] or tonumber(till) <= now then
  return 0
end
local ends = math.max(till, now + ARGV[2])
local own, last, others = ends, ends, ''
for number, till in string.gmatch(found[1] or '', '(%d+)=(%d+)') do
  till = tonumber(till)
  last = math.max(last, till)
  if number == ARGV[3] then
    own = math.max(own, till)
  elseif till > now then
    others = others .. ' ' .. number .. '=' .. till
  end
end
-- PEXPIRE comes first, also where nothing is left to lengthen: after it, a
-- server at maxmemory executes HSET too (R25).
redis.call('PEXPIRE', KEYS[1], math.max(redis.call('PTTL', KEYS[1]), last - now + 1000))
redis.call('HSET', KEYS[1], ARGV[4], ends .. ' ' .. value, record, ARGV[3] .. '=' .. own .. others)
return 1
