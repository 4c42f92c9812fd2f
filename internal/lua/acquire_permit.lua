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
-- One field has how many permits there are, by those who took them: each
-- number, "=", and the end of the last permit that a client with this number
-- took or extended. Numbers whose end has passed do not count. Of the others,
-- the least is how many may be taken. The field's name is longer than 64 bytes:
-- so a server keeps few fields, too, in a table, which it need not search.
--
-- TIME goes on while a script runs: it is read once, and first.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local record = 'how many permits there are by each client, and when the last of its ends'
local n, ends = tonumber(ARGV[4]), now + ARGV[2]
local found = redis.call('HMGET', KEYS[1], record, ARGV[4])
local least, own, last, others = tonumber(ARGV[3]), ends, ends, ''
local only = found[1] and string.match(found[1], '^' .. ARGV[3] .. '=(%d+)$')
if only then -- as nearly always: all clients say the same
  own = math.max(ends, only)
  last = own
elseif found[1] then
  local alien = string.gsub(found[1], '[1-9]%d*=%d+ ?', '') ~= ''
  for number, till in string.gmatch(found[1], '(%d+)=(%d+)') do
    alien = alien or tonumber(number) > 1024
    till = tonumber(till)
    if till > now then
      last = math.max(last, till)
      if number == ARGV[3] then
        own = math.max(own, till)
      else
        least, others = math.min(least, number), others .. ' ' .. number .. '=' .. till
      end
    end
  end
  if alien then
    return redis.error_reply('ERR the record of permits holds something else')
  end
end
local function held(permit)
  return permit and (tonumber(string.match(permit, '^%d+')) or 0) > now
end
local taken = 0
if others ~= '' then -- some may be held that not every client may take
  local all = redis.call('HGETALL', KEYS[1])
  for i = 2, #all, 2 do
    if held(all[i]) then
      taken = taken + 1
    end
  end
end
-- A server looks at maxmemory before the first write of a script, and only if
-- that needs memory. This HSET is the first, so it is refused as the SET of a
-- plain lock is (R25).
if n < least and taken < least and not held(found[2]) then
  redis.call('HSET', KEYS[1], ARGV[4], ends .. ' ' .. ARGV[1], record, ARGV[3] .. '=' .. own .. others)
  -- The hash outlives all that is in it by a second to two, so that not each
  -- permit has to move its end. PERSIST may have taken its TTL.
  if redis.call('PTTL', KEYS[1]) < last - now + 1000 then
    redis.call('PEXPIRE', KEYS[1], last - now + 2000)
  end
  return 1
end
-- A mark that is young was set by a caller to whom no permit was free, and no
-- permit was given back since, for that deletes it. Where callers wait for many
-- permits, they would otherwise keep the node busy with looking at all of them.
if ARGV[5] ~= '0' and redis.call('PTTL', KEYS[2]) >= ARGV[5] * 3 / 4 then
  return '1 '
end
local free, seen = {}, 0
while taken < least and seen < least and #free < 8 do
  local numbers = {}
  for i = 1, math.min(64, least - seen) do
    numbers[i] = string.format('%d', (n + seen + i) % least)
  end
  for i, permit in ipairs(redis.call('HMGET', KEYS[1], unpack(numbers))) do
    if not held(permit) and #free < 8 then
      free[#free + 1] = numbers[i]
    end
  end
  seen = seen + #numbers
end
-- All that wait are told of each change of the mark. So it is set anew only
-- when a quarter of its time has passed: otherwise, when one asks, all do. A
-- permit that is free here alone is no reason to ask again and again.
if ARGV[5] ~= '0' and (#free == 0 or ARGV[6] == '1') then
  redis.call('SET', KEYS[2], '', 'PX', ARGV[5])
end
return '1 ' .. table.concat(free, ',')
