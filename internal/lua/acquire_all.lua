-- Sets all keys to the token ARGV[1] with the TTL ARGV[2], if none of them
-- exists. Returns 1 if they were set; otherwise nothing is changed, and the
-- result is a text: i, a blank, and the value of KEYS[i], the first that
-- exists. A value that is too long for a lock's, or no string, is left out
-- (R32).
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value -- the error
    end
    value = ''
  end
  if value then
    return i .. ' ' .. (#value <= 160 and value or '')
  end
end
for i = 1, #KEYS do
  redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
end
return 1
