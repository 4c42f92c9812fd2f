-- Compare and delete, for many locks at once: KEYS[i] with the token ARGV[i]. One result for each: 1 when the key was ours,
-- 0 when it was not, -1 when it could not be read (it is no string). What refuses a deletion refuses all, as an error.
local results = {}
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    results[i] = -1
  elseif value == ARGV[i] then
    results[i] = redis.call('DEL', KEYS[i])
  else
    results[i] = 0
  end
end
return results
