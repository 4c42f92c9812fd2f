-- Compares and deletes many locks: KEYS[i] with the token ARGV[i]. Returns a
-- result for each, as release.lua does. If the deletion is refused, returns an
-- error for all. A further command in a script costs more than a further key of
-- a command, so two commands serve all keys.
local values = redis.pcall('MGET', unpack(KEYS))
if values.err then
  -- This user may not call MGET, or not for each of the keys. The keys are read
  -- one by one, and the result is -1 for a key that cannot be read.
  values = {}
  for i = 1, #KEYS do
    values[i] = redis.pcall('GET', KEYS[i])
  end
end
local results, ours = {}, {}
for i = 1, #KEYS do
  if values[i] == ARGV[i] then
    results[i] = 1
    ours[#ours + 1] = KEYS[i]
  elseif type(values[i]) == 'table' and not string.find(values[i].err, 'WRONGTYPE', 1, true) then
    results[i] = -1
  else
    results[i] = 0
  end
end
if #ours > 0 and redis.call('DEL', unpack(ours)) < #ours then
  -- If a lock is released twice in one call, only the first finds it held.
  local seen = {}
  for i = 1, #KEYS do
    if results[i] == 1 then
      results[i] = seen[KEYS[i]] and 0 or 1
      seen[KEYS[i]] = true
    end
  end
end
return results
