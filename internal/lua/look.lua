-- Returns the value of a key, as GET does. A long value, which is not a token,
-- is replaced by its digest, so that no reply is long (R32).
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'string' and #value > 1024 then
  return redis.sha1hex(value)
end
return value
