-- Compares and lengthens a permit (R10), and the record of how many there are.
-- KEYS: the permit, and the record. ARGV: the value, and the TTL in ms. Returns
-- as extend.lua does.
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  return 0
end
for i = 1, 2 do
  local rest = redis.call('PTTL', KEYS[i])
  if rest >= 0 and rest < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return 1
