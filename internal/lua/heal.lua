-- Compares and lengthens, or sets a missing key again (R10, healing). Returns 1
-- if the key is ours, 2 if it was missing and is set again, and 0 if it is
-- another's or not a string. A key that is ours is treated as in extend.lua,
-- whose arguments these are.
local value = redis.pcall('GET', KEYS[1])
if value == false then
  return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 2 or 0
end
if value ~= ARGV[1] then
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  return 0
end
local rest = redis.call('PTTL', KEYS[1])
if rest == -1 then
  redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- see extend.lua
elseif rest < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 1
