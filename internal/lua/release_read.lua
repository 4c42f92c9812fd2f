-- Lets a reader out (R9). KEYS: the readers, as read.lua has them, and the
-- writer's key. ARGV: the reader's value, and the value of the writer that has
-- become this reader, or ''. Its key is deleted as well: this node may not have
-- heard of the downgrade. Returns 1 if either was there, and 0 if not, or if
-- the reader's time is over.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local was = 0
local ends = redis.pcall('ZSCORE', KEYS[1], ARGV[1])
if type(ends) == 'table' and ends.err then
  if not string.find(ends.err, 'WRONGTYPE', 1, true) then
    return ends -- the error
  end
elseif ends then
  redis.call('ZREM', KEYS[1], ARGV[1])
  if tonumber(ends) > now then
    was = 1
  end
end
if ARGV[2] ~= '' then
  local value = redis.pcall('GET', KEYS[2])
  if value == ARGV[2] then
    redis.call('DEL', KEYS[2])
    was = 1
  elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    return value -- the error
  end
end
return was
