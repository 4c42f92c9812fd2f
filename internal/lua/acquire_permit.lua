-- Takes one permit of a semaphore, if it is free.
-- KEYS: the permit; the record of how many there are; and the mark of callers
-- that wait. ARGV: the value, and the TTL in ms; how many permits there are;
-- the number of this one, from 0 on; what the names of all permits begin with;
-- for how many ms the caller's mark stands, or 0; and 1 for a caller that asks
-- for no other one now. Returns 1 if it was taken, and otherwise a text: "1 ",
-- and the numbers of up to eight permits that are free, with commas; none if a
-- caller that waits was told so a moment ago.
--
-- The record is a sorted set of the numbers of permits that clients name, at
-- most 1024. Each has the end, by this node's clock in ms, of the last permit
-- that a client with this number took or extended. Numbers whose end has passed
-- do not count. Of the others, the least is how many may be taken.
--
-- TIME goes on while a script runs: it is read once, and first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local least, most = tonumber(ARGV[3]), tonumber(ARGV[3])
local record = redis.call('ZRANGE', KEYS[2], 0, 1024, 'WITHSCORES')
for i = 1, #record, 2 do
  local permits = tonumber(string.match(record[i], '^[1-9]%d*$'))
  local ends = tonumber(record[i + 1])
  if not permits or permits > 1024 or not ends then
    return redis.error_reply('ERR the record of permits holds something else')
  end
  if ends > now then
    least, most = math.min(least, permits), math.max(most, permits)
  end
end
local n, taken, values = tonumber(ARGV[4]), nil, nil
local function look()
  local names = {}
  for i = 1, most do
    names[i] = ARGV[5] .. (i - 1)
  end
  values, taken = redis.call('MGET', unpack(names)), 0
  for i = 1, most do
    if values[i] then
      taken = taken + 1
    end
  end
end
if least < most then
  look() -- some may be held that no client may take any more
end
-- A server looks at maxmemory before the first write of a script, and only if
-- that needs memory. This SET is the first, so it is refused as that of a plain
-- lock is (R25).
if n < least and (not taken or taken < least) and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  redis.call('ZADD', KEYS[2], 'GT', now + ARGV[2], ARGV[3])
  -- The set outlives each of its numbers.
  local stays, rest = ARGV[2] + 1000, redis.call('PTTL', KEYS[2])
  if rest == -1 then -- it is new, or PERSIST took its TTL, which others need
    stays = math.max(stays, redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')[2] - now + 1000)
  end
  if rest < stays then
    redis.call('PEXPIRE', KEYS[2], stays)
  end
  return 1
end
-- A mark that is young was set by a caller to whom no permit was free, and no
-- permit was given back since, for that deletes it. Where callers wait for many
-- permits, they would otherwise keep the node busy with looking at all of them.
if ARGV[6] ~= '0' and redis.call('PTTL', KEYS[3]) >= ARGV[6] * 3 / 4 then
  return '1 '
end
look()
local free = {}
if taken < least then
  for i = n + 1, n + least do
    -- MGET shows no value of a key that holds no string, and is in the way.
    local other = i % least
    if not values[other + 1] and #free < 8 and redis.call('PTTL', ARGV[5] .. other) == -2 then
      free[#free + 1] = other
    end
  end
end
-- All that wait are told of each change of the mark. So it is set anew only
-- when a quarter of its time has passed: otherwise, when one asks, all do. A
-- permit that is free here alone is no reason to ask again and again.
if ARGV[6] ~= '0' and (#free == 0 or ARGV[7] == '1') then
  redis.call('SET', KEYS[3], '', 'PX', ARGV[6])
end
return '1 ' .. table.concat(free, ',')
