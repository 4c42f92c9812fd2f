-- Compare and lengthen (R10): 1 when the key is ours, 0 when it is not, nor even a string. The TTL is set only when the new
-- one exceeds what remains; a key without a TTL (-1) is left as it is.
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- it could not be read: the error that says why
  end
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
if rest >= 0 and rest < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
