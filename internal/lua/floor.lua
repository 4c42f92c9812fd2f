-- Gives a node the floor of its fencing numbers (docs/fencing.md). KEYS: the
-- node's record, and its seal. ARGV: the value that the seal must have, the run
-- id, and the floor. Returns 1, or 0 if the seal has another value: the node
-- may have forgotten numbers since it was looked at. A floor is never lowered.
if redis.call('GET', KEYS[2]) ~= ARGV[1] then
  return 0
end
local floor, period, cur, prev = '-', '0', '0', '0'
local record = redis.call('GET', KEYS[1])
if record then
  floor, period, cur, prev = string.match(record,
    '^redlock%-fence 1 run_id=%S+ floor=([%d-]+) period=(%d+) cur=(%d+) prev=(%d+)$')
  if not floor then
    return redis.error_reply('ERR the record of fencing numbers holds something else')
  end
end
if floor == '-' or tonumber(floor) < tonumber(ARGV[3]) then
  floor = ARGV[3]
end
redis.call('SET', KEYS[1], 'redlock-fence 1 run_id=' .. ARGV[2] .. ' floor=' .. floor .. ' period=' .. period ..
  ' cur=' .. cur .. ' prev=' .. prev)
return 1
