-- Changes what a node says of the deployment that it belongs to (R23, R30).
-- KEYS: the seal, which has no TTL, and the opening, which precedes it.
-- ARGV: a verb, an identity ("deployment=… nodes=… members=…"), and what the
-- verb needs. Returns 1 if the change was made, now or before. Returns 0, and
-- changes nothing, if what is there forbids it.
--   propose ms ids db  begins an opening on a free node, with this TTL. Seals
--                   and openings of the ids, which have blanks around them,
--                   count as absent
--   lock            makes the identity's opening stay, without a TTL
--   seal seal       writes the seal in place of the identity's lock, or over a
--                   seal of the identity
--   adopt seal ids db  does the same, and also writes it on a free node
--   undo            removes the identity's opening
-- A master belongs to a deployment with one of its databases. So propose and
-- adopt, which are given their own number, return a text with the number and
-- the identity if another database has a seal or an opening under the same
-- keys. Where SELECT is not allowed, that is unknown. Those of the ids, whose
-- deployments are over, propose removes: they would let in the clients of those
-- beside the new ones. A value of another form stays as it is: it is not ours.
-- A seal is never lowered: the larger MaxTTL stays, and for the same process
-- the longer time watched. So does the longer bound of a node that fails over.
local values = {}
for i = 1, 2 do
  local value = redis.pcall('GET', KEYS[i])
  if type(value) == 'table' then
    if string.find(value.err, 'WRONGTYPE', 1, true) then
      return 0
    end
    return value -- the error
  end
  values[i] = value or ''
end
local seal, opening = values[1], values[2]
local verb, identity = ARGV[1], ARGV[2]

local function read(text) -- a seal of any form
  local head, bound, tail = string.match(text, '^redlock%-seal 4 (.*) failover_ms=(%d+)( watched_ms=.*)$')
  if bound then
    text = 'redlock-seal 3 ' .. head .. tail
  end
  local who, run, longest, watched, uptime = string.match(text, '^redlock%-seal [23] ' ..
    '(deployment=%x+ nodes=%d+ members=[%x,]+) run_id=(%S+) max_ttl_ms=(%d+) watched_ms=(%d+) uptime_ms=(%d+)$')
  if who then
    return who, run, tonumber(longest), tonumber(watched), uptime, tonumber(bound)
  end
  run, longest, watched = string.match(text, '^redlock%-seal 1 run_id=(%S+) max_ttl_ms=(%d+) watched_ms=(%d+)$')
  return '', run, tonumber(longest), tonumber(watched), '0'
end
local owner, run, longest, watched, uptime, bound = read(seal)
local strange = seal ~= '' and not run
local stage, opener = string.match(opening, '^redlock%-opening 1 (%l+) (deployment=%x+ nodes=%d+ members=[%x,]+)$')
if strange or opening ~= '' and not stage then
  return 0
end
local free = owner == '' and not stage

local function passes(who) -- who is absent, or has one of the ids
  local id = who and string.match(who, '^deployment=(%x+)')
  return not id or string.find(ARGV[4], ' ' .. id .. ' ', 1, true) ~= nil
end
local over = {} -- databases and keys of deployments that are over
if ARGV[5] and (verb == 'propose' or free) then
  local found
  for db = 0, 63 do
    local selected = redis.pcall('SELECT', db)
    if selected.err then
      break
    end
    for i = 1, 2 do
      local value = redis.pcall('GET', KEYS[i])
      local who = type(value) == 'string' and string.match(value, '(deployment=%x+ nodes=%d+ members=[%x,]+)')
      if db ~= tonumber(ARGV[5]) and who and who ~= identity then
        if not passes(who) then
          found = found or db .. ' ' .. who
        else
          over[#over + 1] = {db, KEYS[i]}
        end
      end
    end
  end
  redis.pcall('SELECT', ARGV[5])
  if found then
    return found
  end
end

if verb == 'propose' then
  if stage == 'proposed' and opener == identity then
    return 1
  elseif not passes(owner) or not passes(opener) then
    return 0
  end
  redis.call('SET', KEYS[2], 'redlock-opening 1 proposed ' .. identity, 'PX', ARGV[3])
  for _, place in ipairs(over) do
    redis.pcall('SELECT', place[1])
    redis.pcall('DEL', place[2])
  end
  return 1
elseif verb == 'undo' then
  if opener == identity then
    redis.call('DEL', KEYS[2])
    return 1
  end
  return 0
elseif verb == 'lock' then
  if opener ~= identity then
    return 0
  end
  redis.call('SET', KEYS[2], 'redlock-opening 1 locked ' .. identity)
  return 1
end

local locked = stage == 'locked' and opener == identity
if not locked and owner ~= identity and not (free and verb == 'adopt') then
  return 0
end
local _, new_run, new_longest, new_watched, new_uptime, new_bound = read(ARGV[3])
if owner == '' or owner == identity then
  new_longest = math.max(new_longest, longest or 0)
  if new_bound then
    new_bound = math.max(new_bound, bound or 0)
  end
  if new_run == run and watched >= new_watched then
    new_watched, new_uptime = watched, uptime
  end
end
local form, over = 3, ''
if new_bound then
  form, over = 4, string.format(' failover_ms=%d', new_bound)
end
local new = string.format('redlock-seal %d %s run_id=%s max_ttl_ms=%d%s watched_ms=%d uptime_ms=%s',
  form, identity, new_run, new_longest, over, new_watched, new_uptime)
if new ~= seal then
  redis.call('SET', KEYS[1], new)
end
if locked then
  redis.call('DEL', KEYS[2])
end
return 1
