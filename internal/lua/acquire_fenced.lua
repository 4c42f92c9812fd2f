-- Sets the keys of a lock that has a fencing number (docs/fencing.md), on one
-- resource or several: only if all are free, and the number is higher than any
-- that this node has granted for one of them.
-- KEYS: the n keys of the lock, the n last numbers, and the node's record,
-- which has no TTL.
-- ARGV: the token, the TTL in ms, the number, its lead in µs, and the TTL of a
-- last number in ms, which is an hour more than a period. Returns a code and a
-- number:
--   0  the lock is held; the last number, and in a text i, a blank, and the
--      value of KEYS[i], the first that is in the way, as acquire_all.lua does
--   1  granted; the last number before
--   2  the number is not higher than the last one, which follows
--   3  the number is more than the lead ahead of the one that follows: this
--      node's clock, or the highest number that it may have granted
--   4  as 1, but the node has no floor, so the grant must not count
-- The last number of several resources is the highest of theirs. Refusals
-- change nothing, but may raise last numbers if they find a key of another
-- type.
--
-- A last number above all that the record knows was not granted here: something
-- else has set it, and it counts as the highest that may have been (R33).
--
-- A last number expires. That is sound because no number of this period is
-- higher than cur, none of earlier periods higher than prev, and a last number
-- outlives its period by an hour: one that is missing is not higher than prev.
-- After a restart from a file, a last number may be an old one, but the floor
-- is not. cur is a second ahead, so that the record is not written each time.
--
-- The time matters only to a number above cur, which raises it, and where a
-- last number is missing. Otherwise the record stays, even if its period has
-- ended: the next claim that asks for the time takes cur as the highest number
-- of an earlier period, and none that was granted meanwhile is higher.
--
-- A number stays the text that it came as: tostring would lose digits. TIME
-- goes on while a script runs, and expiry does not: it is read once.
-- MGET returns nothing for a key of another type; NX does not overwrite it.
local n = (#KEYS - 1) / 2
local found = redis.call('MGET', unpack(KEYS))
local record = found[#KEYS]
local floor, was, cur, prev = '-', 0, 0, 0
if record then
  floor, was, cur, prev = string.match(record,
    '^redlock%-fence 1 run_id=%S+ floor=(%S+) period=(%d+) cur=(%d+) prev=(%d+)$')
  if not floor then
    return redis.error_reply('ERR the record of fencing numbers holds something else')
  end
  was, cur, prev = was + 0, cur + 0, prev + 0
end
local bottom = tonumber(floor) or 0
local high = math.max(cur, prev, bottom)
if high > 9007199254740991 then
  return redis.error_reply('ERR the record of fencing numbers holds something else')
end

local last, missing, holder = bottom, false, nil
for i = 1, n do
  local text = found[n + i]
  if not text then
    missing = true
  elseif string.find(text, '^%d+$') then
    last = math.max(last, math.min(text, high))
  else
    return redis.error_reply('ERR the last fencing number holds something else')
  end
  if found[i] and not holder then
    holder = i
  end
end
local number, now, period = tonumber(ARGV[3]), 0, was
if missing or number > cur then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
  period = math.floor(now / ((ARGV[5] - 3600000) * 1000))
  if was ~= period then
    prev, cur = math.max(prev, cur), 0
  end
  if missing then
    last = math.max(last, prev)
  end
end

if holder then
  local value = found[holder]
  return {0, last, holder .. ' ' .. (#value <= 160 and value or '')}
end
if number <= last then
  return {2, last}
end
if number > cur then
  local most = math.max(now, high)
  if number > most + ARGV[4] then
    return {3, most}
  end
  local run = record and string.match(record, 'run_id=(%S+)') or '-'
  local new = string.format('redlock-fence 1 run_id=%s floor=%s period=%.0f cur=%.0f prev=%.0f',
    run, floor, period, math.min(number + 1000000, 9007199254740991), prev)
  if not redis.call('SET', KEYS[#KEYS], new, record and 'XX' or 'NX') then
    return redis.error_reply('ERR the record of fencing numbers holds something else')
  end
end
for i = 1, n do
  if not redis.call('SET', KEYS[n + i], ARGV[3], found[n + i] and 'XX' or 'NX', 'PX', ARGV[5]) then
    return redis.error_reply('ERR the last fencing number holds something else')
  end
end
for i = 1, n do
  if not redis.call('SET', KEYS[i], ARGV[1], 'NX', 'PX', ARGV[2]) then
    if i > 1 then -- by a key of another type: all or none
      redis.call('DEL', unpack(KEYS, 1, i - 1))
    end
    return {0, last, i .. ' '}
  end
end
return {floor == '-' and 4 or 1, last}
