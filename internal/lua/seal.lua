-- Changes what a node is in a deployment (R30), and what its seal says of the
-- process (R23).
-- KEYS: the seal, which has no TTL. ARGV: what the node must be now, or
-- nothing if it has no seal; what it becomes; the names of members; and the
-- proof. The last two are empty for what has none. See package internal/pure
-- for their forms. Returns 1 if the node is that now, or was before. Returns 0,
-- and changes nothing, if it is something else.
-- A node belongs to a deployment with one of its databases. So for a node that
-- comes into a set, more is given: ids with blanks around them, whose
-- deployments are over, and the number of the database. If another database has
-- a seal under the same key, which is in a set, its number and the set's id are
-- returned. Seals of the ids are removed there once the node gets a proof: they
-- would let in the clients of those deployments beside the new ones. Where
-- SELECT is not allowed, none is known.
-- What a seal says of a deployment is never lowered: names stay, the larger
-- MaxTTL does, and for the same process the longer time watched. So does the
-- longer bound of a node that fails over.
local head = 'redlock-seal 5 '
local value = redis.pcall('GET', KEYS[1])
if type(value) == 'table' then
  if string.find(value.err, 'WRONGTYPE', 1, true) then
    return 0
  end
  return value -- the error
end

local function read(text) -- the place, the names and the proof
  local place, names, proof = string.match(text, '^redlock%-seal 5 (member=%x+ [%l%x=, ]+) names=([%x:,]*) ?(.*)$')
  return place or string.match(text, '^redlock%-seal 5 (member=%x+)$'), names or '', proof or ''
end
local function set(at) -- the id of the set at a place, of the one to be if any
  return at and (string.match(at, ' listed=(%x+) ') or string.match(at, ' deployment=(%x+) '))
end

local place, names, proof = '', '', ''
if value then
  place, names, proof = read(value)
end
local was, is, more_names, more_proof = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
if place ~= was and (place ~= is or more_proof ~= '') then
  -- Also if there is no place in it: it is not ours. A proof is of the time
  -- when the node was something else.
  return 0
end

if ARGV[6] then
  local found
  local over = {}
  for db = 0, 63 do
    local selected = redis.pcall('SELECT', db)
    if selected.err then
      break
    end
    local other = redis.pcall('GET', KEYS[1])
    local id = type(other) == 'string' and set(read(other))
    if id and db ~= tonumber(ARGV[6]) then
      if string.find(ARGV[5], ' ' .. id .. ' ', 1, true) then
        over[#over + 1] = db
      else
        found = found or db .. ' ' .. id
      end
    end
  end
  for _, db in ipairs(over) do
    if not found and more_proof ~= '' then
      redis.pcall('SELECT', db)
      redis.pcall('DEL', KEYS[1])
    end
  end
  redis.pcall('SELECT', ARGV[6])
  if found then
    return found
  end
end

if set(place) ~= set(is) then
  names = '' -- of another set
end
for member, name in string.gmatch(more_names, '(%x+):(%x+)') do
  local entry = member .. ':' .. name
  local _, count = string.gsub(names, member .. ':', '')
  local known = string.find(string.match(is, ' members=(.*)$') or '', member, 1, true)
  if known and count < 4 and not string.find(names, entry, 1, true) then
    names = names .. (names == '' and '' or ',') .. entry
  end
end

local function proved(text) -- its numbers, if it is a proof
  local run, longest, bound, watched, uptime =
    string.match(text, '^run_id=(%S+) max_ttl_ms=(%d+) ?(.-) watched_ms=(%d+) uptime_ms=(%d+)$')
  bound = string.match(bound or '', '^failover_ms=(%d+)$')
  return run, tonumber(longest), tonumber(bound), tonumber(watched), uptime
end
local run, longest, bound, watched, uptime = proved(more_proof)
if more_proof == '' and string.find(is, ' deployment=', 1, true) then
  more_proof = proof -- it stays as it is
elseif place == is and proof ~= '' and run then
  local old_run, old_longest, old_bound, old_watched, old_uptime = proved(proof)
  longest = math.max(longest, old_longest or 0)
  if bound then
    bound = math.max(bound, old_bound or 0)
  end
  if run == old_run and old_watched >= watched then
    watched, uptime = old_watched, old_uptime
  end
  more_proof = string.format('run_id=%s max_ttl_ms=%d%s watched_ms=%d uptime_ms=%s', run, longest,
    bound and string.format(' failover_ms=%d', bound) or '', watched, uptime)
end

local new = head .. is
if set(is) then
  new = new .. ' names=' .. names
end
if more_proof ~= '' then
  new = new .. ' ' .. more_proof
end
if new ~= value then
  redis.call('SET', KEYS[1], new)
end
return 1
