package fencing

// RedisScript runs one command of Redis or Valkey under a number, in one step:
// only if no higher number was stored, and the number is stored first. Any
// client can run it, by EVAL or, once loaded, by EVALSHA:
//
//	KEYS  the key of the number, then each key of the command
//	ARGV  the number as text, then the words of the command
//
// It returns what the command returns, and OK if ARGV has no command: then it
// only stores the number. Refused recognises the error by which it refuses a
// number; after any error, the command was not run, or returned that error
// itself. A number that is not one from 1 to Last is an error, whether it was
// sent or stored.
//
// The number belongs to what the lock protects: all keys that are written under
// one lock share its key, and no two locks share one. In a cluster their names
// have one hash tag, such as {invoice:7}:fence and {invoice:7}. The key has no
// TTL, and must not be deleted with the values: without it any number counts.
const RedisScript = `
local function number(text)
  local n = string.find(text, '^[1-9]%d*$') and tonumber(text)
  return n and n <= 9007199254740991 and n
end
local new = number(ARGV[1])
if not new then
  return redis.error_reply('ERR the fencing number is not a number from 1 to 2^53-1')
end
local text = redis.call('GET', KEYS[1])
if text then
  local stored = number(text)
  if not stored then
    return redis.error_reply('ERR the key of the fencing number holds something else')
  end
  if new < stored then
    return redis.error_reply('` + redisRefusal + `the number is lower than one that was seen')
  end
end
redis.call('SET', KEYS[1], ARGV[1])
if #ARGV == 1 then
  return redis.status_reply('OK')
end
return redis.call(unpack(ARGV, 2))
`

// redisRefusal is how the error of RedisScript begins that Refused recognises.
const redisRefusal = "FENCED "
