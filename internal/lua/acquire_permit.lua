-- Takes one permit of a semaphore, if it is free.
-- KEYS: the permits, and the mark of callers that wait. ARGV: the value, and
-- the TTL in ms; how many permits there are; the number of this one, from 0 on;
-- for how many ms the caller's mark stands, or 0; and 1 for a caller that asks
-- for no other one now. Returns 1 if it was taken, and otherwise a text: "1 ",
-- and the numbers of up to eight permits that are free, with commas; none if a
-- caller that waits was told so a moment ago.
--
-- The permits are a hash. Each that is held has its number as a field, with the
-- end of its time, by this node's clock in ms, a blank, and the value. One
-- whose end has passed is free.
-- The field "of" has how many permits there are, by those who took them: each
-- number, "=", and the end of the last permit that a client with this number
-- took or extended. Numbers whose end has passed do not count. Of the others,
-- the least is how many may be taken.
--
-- TIME goes on while a script runs: it is read once, and first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local permits, n, ends = tonumber(ARGV[3]), tonumber(ARGV[4]), now + ARGV[2]
local found = redis.call('HMGET', KEYS[1], 'of', n)
local least, own, last, others = permits, ends, ends, ''
for number, till in string.gmatch(found[1] or '', '(%d+)=(%d+)') do
  if tonumber(till) > now then
    last = math.max(last, till)
    if tonumber(number) == permits then
      own = math.max(own, till)
    else
      least, others = math.min(least, number), others .. ' ' .. number .. '=' .. till
    end
  end
end
local function held(permit)
  local till = permit and string.match(permit, '^(%d+) ')
  return till and tonumber(till) > now
end
local taken, all
local function look()
  local found = redis.call('HGETALL', KEYS[1])
  taken, all = 0, {}
  for i = 1, #found, 2 do
    if held(found[i + 1]) then
      taken, all[found[i]] = taken + 1, true
    end
  end
end
if others ~= '' then
  look() -- some may be held that not every client may take
end
-- A server looks at maxmemory before the first write of a script, and only if
-- that needs memory. This HSET is the first, so it is refused as the SET of a
-- plain lock is (R25).
if n < least and not held(found[2]) and (not taken or taken < least) then
  redis.call('HSET', KEYS[1], n, ends .. ' ' .. ARGV[1], 'of', permits .. '=' .. own .. others)
  -- The hash outlives all that is in it. PERSIST may have taken its TTL.
  if redis.call('PTTL', KEYS[1]) < last - now + 1000 then
    redis.call('PEXPIRE', KEYS[1], last - now + 1000)
  end
  return 1
end
-- A mark that is young was set by a caller to whom no permit was free, and no
-- permit was given back since, for that deletes it. Where callers wait for many
-- permits, they would otherwise keep the node busy with looking at all of them.
if ARGV[5] ~= '0' and redis.call('PTTL', KEYS[2]) >= ARGV[5] * 3 / 4 then
  return '1 '
end
look()
local free = {}
if taken < least then
  for i = n + 1, n + least do
    local other = i % least
    if not all[tostring(other)] and #free < 8 then
      free[#free + 1] = other
    end
  end
end
-- All that wait are told of each change of the mark. So it is set anew only
-- when a quarter of its time has passed: otherwise, when one asks, all do. A
-- permit that is free here alone is no reason to ask again and again.
if ARGV[5] ~= '0' and (#free == 0 or ARGV[6] == '1') then
  redis.call('SET', KEYS[2], '', 'PX', ARGV[5])
end
return '1 ' .. table.concat(free, ',')
