-- Compare and shorten, a release that lets the key stand for a while: 1 when the key is ours, 0 when it is not, nor even a
-- string. The TTL is set only when it is shorter than what remains, or nothing ends the key (-1), so that one that comes late
-- does no harm.
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- it could not be read: the error that says why
  end
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
if rest < 0 or rest > tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
