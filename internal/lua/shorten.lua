-- Compares and shortens: a release that keeps the key for a while. Returns 1 if
-- the key is ours, and 0 if it is another's, missing or not a string. Sets the
-- TTL only if it is shorter than the remaining one, or if the key has none
-- (-1), so that a late call does no harm.
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
if rest < 0 or rest > tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
