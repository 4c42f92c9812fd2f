-- Writes the seal ARGV[1] (R23). Returns 1 if the key then holds a seal of that
-- process with values at least as large, and 0 if it holds something else, which
-- is left alone. Values are never lowered: the longer time stays. But the time
-- watched belongs to one process, and a new process starts with its own. The key
-- has no TTL.
local form = 'redlock-seal 1 run_id=%s max_ttl_ms=%d watched_ms=%d'
local function read(seal)
  return string.match(seal, '^redlock%-seal 1 run_id=(%S+) max_ttl_ms=(%d+) watched_ms=(%d+)$')
end
local run, longest, watched = read(ARGV[1])
local old = redis.pcall('GET', KEYS[1])
if type(old) == 'table' then
  if string.find(old.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return old -- the error
end
if old then
  local old_run, old_longest, old_watched = read(old)
  if not old_run then
    return 0
  end
  longest = math.max(longest, old_longest)
  if old_run == run then
    watched = math.max(watched, old_watched)
  end
end
local new = string.format(form, run, longest, watched)
if new ~= old then
  redis.call('SET', KEYS[1], new)
end
return 1
