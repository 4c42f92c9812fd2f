-- Compares and lengthens (R10). ARGV: the value, and the TTL in ms; and the TTL
-- for a key that has none (-1, by PERSIST): the longest that this lock or a
-- copy of it may have been promised. Returns 1 if the key is ours, and 0 if it
-- is another's, missing or not a string. Sets the TTL only if it exceeds the
-- remaining one.
local value = redis.pcall('GET', KEYS[1])
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
if rest == -1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
elseif rest < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
