-- Compare and lengthen (R10): 1 when the key is ours, 0 when it is not. The TTL is set only when the new one exceeds what
-- remains; a key without a TTL (-1) is left as it is.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
if rest >= 0 and rest < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
