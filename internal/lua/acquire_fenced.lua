-- Sets a lock that has a fencing number (docs/fencing.md): only if the key is
-- free, and the number is higher than any that this node has granted for it.
-- KEYS: the lock, its last number, and the node's record, which has no TTL.
-- ARGV: the token, the TTL in ms, the number, its lead in µs, and the length of
-- a period in ms. Returns a code and a number:
--   0  the lock is held; its last number
--   1  granted; the last number before
--   2  the number is not higher than the last one, which follows
--   3  the number is further ahead of the one that follows than the lead allows:
--      this node's clock, or the highest number that it has granted
--   4  as 1, but the node has no floor, so the grant must not count
-- Refusals change nothing but the period.
--
-- A last number expires. That is sound because cur has the highest number of
-- this period and prev that of all earlier ones, and a last number outlives its
-- period by an hour at least: one that is missing is not higher than prev. After
-- a restart from a file, a last number may be an old one, but floor is not.
--
-- Numbers stay the texts that they came as: tostring would lose digits. TIME
-- goes on while a script runs, and expiry does not: it is read once, and first.
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000000 + tonumber(time[2])
local period = string.format('%.0f', math.floor(now / (tonumber(ARGV[5]) * 1000)))

local function higher(a, b)
  return tonumber(a) < tonumber(b) and b or a
end

local run, floor, was, cur, prev = '-', '-', period, '0', '0'
local record = redis.call('GET', KEYS[3])
if record then
  run, floor, was, cur, prev = string.match(record,
    '^redlock%-fence 1 run_id=(%S+) floor=([%d-]+) period=(%d+) cur=(%d+) prev=(%d+)$')
  if not run then
    return redis.error_reply('ERR the record of fencing numbers holds something else')
  end
end
local function write()
  redis.call('SET', KEYS[3], 'redlock-fence 1 run_id=' .. run .. ' floor=' .. floor .. ' period=' .. period ..
    ' cur=' .. cur .. ' prev=' .. prev)
end
if was ~= period then
  prev, cur = higher(prev, cur), '0'
  write()
end

local bottom = floor == '-' and '0' or floor
local last = redis.call('GET', KEYS[2]) or prev
if not string.find(last, '^%d+$') then
  return redis.error_reply('ERR the last fencing number holds something else')
end
last = higher(last, bottom)
local holder = redis.pcall('GET', KEYS[1])
if holder then
  if type(holder) == 'table' and not string.find(holder.err, 'WRONGTYPE', 1, true) then
    return holder -- the error
  end
  return {0, tonumber(last)}
end
local number = tonumber(ARGV[3])
if number <= tonumber(last) then
  return {2, tonumber(last)}
end
local most = math.max(now, tonumber(cur), tonumber(prev), tonumber(bottom))
if number > most + tonumber(ARGV[4]) then
  return {3, most}
end
cur = higher(cur, ARGV[3])
write()
redis.call('SET', KEYS[2], ARGV[3], 'PX', string.format('%.0f', tonumber(ARGV[5]) + 3600000))
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {floor == '-' and 4 or 1, tonumber(last)}
