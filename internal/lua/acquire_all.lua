-- Sets all keys to the token ARGV[1] with the TTL ARGV[2], if none of them
-- exists. Returns 1 if they were set; otherwise nothing is changed, and the
-- result is -i for the first key that exists, KEYS[i].
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
  if value then
    return -i
  end
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1
