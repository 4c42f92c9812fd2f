-- Compares and lengthens many locks: KEYS[i] with the arguments of extend.lua,
-- ARGV[3i-2] to ARGV[3i]. Returns a result for each, as extend.lua does, or -1
-- for a key that could not be read. If one TTL cannot be set, returns an error
-- for all. Locks that were lengthened before that stay so, which does no harm
-- (R10).
local values = redis.pcall('MGET', unpack(KEYS))
if values.err then
  -- This user may not call MGET, or not for each of the keys.
  values = {}
  for i = 1, #KEYS do
    values[i] = redis.pcall('GET', KEYS[i])
  end
end
local results = {}
for i = 1, #KEYS do
  if values[i] == ARGV[3 * i - 2] then
    local rest = redis.call('PTTL', KEYS[i])
    if rest == -1 then
      redis.call('PEXPIRE', KEYS[i], ARGV[3 * i])
    elseif rest < tonumber(ARGV[3 * i - 1]) then
      redis.call('PEXPIRE', KEYS[i], ARGV[3 * i - 1])
    end
    results[i] = 1
  elseif type(values[i]) == 'table' and not string.find(values[i].err, 'WRONGTYPE', 1, true) then
    results[i] = -1
  else
    results[i] = 0
  end
end
return results
