-- Compares and deletes a permit (R9), and then the mark of callers that wait:
-- the node tells them. KEYS: as acquire_permit.lua. ARGV: the value, and the
-- permit's number. Returns as release.lua does. With the last permit goes the
-- whole hash: how many there are matters to holders only.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.pcall('HMGET', KEYS[1], 'of', ARGV[2])
if found.err then
  if string.find(found.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return found -- the error
end
local till, value = string.match(found[2] or '', '^(%d+) (.*)$')
if value ~= ARGV[1] then
  return 0
end
redis.call('HDEL', KEYS[1], ARGV[2])
if found[1] and redis.call('HLEN', KEYS[1]) == 1 then
  redis.call('DEL', KEYS[1])
end
redis.call('DEL', KEYS[2])
return tonumber(till) > now and 1 or 0
