-- Compare and delete, for many locks at once: KEYS[i] with the token ARGV[i]. One result for each: 1 when the key was ours,
-- 0 when it was not, nor even a string. What refuses a deletion refuses all, as an error. Each command that a script calls
-- costs more than a further key of it, so there are two commands for all keys together.
local values = redis.pcall('MGET', unpack(KEYS))
if values.err then
  -- This user may not MGET, or not each of the keys. One by one, -1 stands for a key that could not be read.
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
  -- A lock that is released twice at once was held for the first of them only.
  local seen = {}
  for i = 1, #KEYS do
    if results[i] == 1 then
      results[i] = seen[KEYS[i]] and 0 or 1
      seen[KEYS[i]] = true
    end
  end
end
return results
