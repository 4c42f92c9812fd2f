-- Gives a node the floor of its fencing numbers (docs/fencing.md). KEYS: the
-- node's record, and its seal. ARGV: the value that the seal must have, the run
-- id, the floor, and what an operator says: the highest number that the node
-- may remember, or nothing. Returns 1, or 0 if the seal has another value: the
-- node may have forgotten numbers since it was looked at. A floor is never
-- lowered, unless the record is none, or beyond what the operator says: then a
-- new one takes its place (R33).
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
local floor, period, cur, prev = '-', '0', '0', '0'
local record = redis.pcall('GET', KEYS[1])
if record then
  local most = tonumber(ARGV[4])
  local f, p, c, v
  if type(record) == 'string' then
    f, p, c, v = string.match(record,
      '^redlock%-fence 1 run_id=%S+ floor=([%d-]+) period=(%d+) cur=(%d+) prev=(%d+)$')
  elseif not string.find(record.err, 'WRONGTYPE', 1, true) then
    return record -- the error
  end
  if f and not (most and math.max(tonumber(f) or 0, tonumber(c), tonumber(v)) > most) then
    floor, period, cur, prev = f, p, c, v
  elseif not most then
    return redis.error_reply('ERR the record of fencing numbers holds something else')
  end
end
if floor == '-' or tonumber(floor) < tonumber(ARGV[3]) then
  floor = ARGV[3]
end
redis.call('SET', KEYS[1], 'redlock-fence 1 run_id=' .. ARGV[2] .. ' floor=' .. floor .. ' period=' .. period ..
  ' cur=' .. cur .. ' prev=' .. prev)
return 1
