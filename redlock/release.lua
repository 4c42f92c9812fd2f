-- Compare and delete (R9): 1 when the key was ours, 0 when it was not.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
