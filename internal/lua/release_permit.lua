-- Compares and deletes a permit (R9), and then the mark of callers that wait:
-- the node tells them. KEYS: as acquire_permit.lua. ARGV: the value, and the
-- permit's number. Returns as release.lua does. With the last permit goes the
-- whole hash: how many there are matters to holders only.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local found = redis.pcall('HMGET', KEYS[1], ARGV[2], 'how many permits there are by each client, and when the last of its ends')
if found.err then
  if string.find(found.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return found -- the error
end
local till, value = string.match(found[1] or '', '^(%d+) (.*)$')
if value ~= ARGV[1] then
  return 0
end
if redis.call('HLEN', KEYS[1]) == (found[2] and 2 or 1) then
  redis.call('DEL', KEYS[1], KEYS[2])
else
  redis.call('HDEL', KEYS[1], ARGV[2])
  redis.call('DEL', KEYS[2])
end
return tonumber(till) > now and 1 or 0
