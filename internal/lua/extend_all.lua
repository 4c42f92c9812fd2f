-- Compares and lengthens the keys of one lock (R10). Returns 1 if all have the
-- token ARGV[1], and 0, with nothing changed, if one is another's, missing or
-- not a string. Sets the TTL ARGV[2] where it exceeds the remaining one, and
-- ARGV[3] where there is none, as extend.lua does.
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if value ~= ARGV[1] then
    if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value -- the error
    end
    return 0
  end
end
for i = 1, #KEYS do
  local rest = redis.call('PTTL', KEYS[i])
  if rest == -1 then
    redis.call('PEXPIRE', KEYS[i], ARGV[3])
  elseif rest < tonumber(ARGV[2]) then
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
end
return 1
