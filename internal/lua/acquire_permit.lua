-- Takes one permit of a semaphore, if it is free.
-- KEYS: the permit; the record of how many there are; and the mark of callers
-- that wait. ARGV: the value, and the TTL in ms; how many permits there are;
-- the number of this one, from 0 on; what the names of all permits begin with;
-- and for how many ms the caller's mark stands, or 0. Returns 1 if it was
-- taken, and otherwise a text: "1 ", and the numbers of up to eight permits
-- that are free, with commas.
--
-- The record has two numbers: of how many permits there are, the least and the
-- most by clients whose permits may still live. The least counts.
local record = redis.call('GET', KEYS[2])
local least, most = tonumber(ARGV[3]), tonumber(ARGV[3])
if record then
  local a, b = string.match(record, '^(%d+) (%d+)$')
  if not a or tonumber(b) > 1024 then
    return redis.error_reply('ERR the record of permits holds something else')
  end
  least, most = math.min(least, a), math.max(most, b)
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
if n < least and (not taken or taken < least) and redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local rest = redis.call('PTTL', KEYS[2])
  redis.call('SET', KEYS[2], least .. ' ' .. most, 'PX', math.max(rest, ARGV[2]))
  return 1
end
look()
local free = {}
if taken < least then
  for i = n + 1, n + least do
    if not values[i % least + 1] and #free < 8 then
      free[#free + 1] = i % least
    end
  end
end
if #free == 0 and ARGV[6] ~= '0' then
  redis.call('SET', KEYS[3], '', 'PX', ARGV[6])
end
return '1 ' .. table.concat(free, ',')
