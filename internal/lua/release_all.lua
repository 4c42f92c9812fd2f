-- Compares and deletes the keys of one lock (R9). Deletes those that have the
-- token ARGV[1]. Returns 1 if all had it, and 0 if one was another's, missing
-- or not a string. If a key could not be read, returns the error, and has
-- deleted the others.
local ours, failed = {}, nil
for i = 1, #KEYS do
  local value = redis.pcall('GET', KEYS[i])
  if value == ARGV[1] then
    ours[#ours + 1] = KEYS[i]
  elseif type(value) == 'table' and not string.find(value.err, 'WRONGTYPE', 1, true) then
    failed = value
  end
end
if #ours > 0 then
  redis.call('DEL', unpack(ours))
end
if failed then
  return failed
end
return #ours == #KEYS and 1 or 0
