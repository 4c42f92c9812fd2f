-- Returns names of keys, and changes nothing. ARGV: SCAN's cursor, pattern and
-- COUNT; how many bytes of each name are the prefix, which is left out; the
-- length of the longest rest that is asked for; and how many bytes of names a
-- reply may have (R32). Returns the cursor of the next page; 1 if names are
-- missing, else 0; and the names, each behind its length and a colon. In place
-- of a page that is too big it takes a smaller one, from the same cursor: SCAN
-- keeps its promise then, whatever comes and goes. It touches no key.
local count = tonumber(ARGV[3])
while true do
  local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', count)
  if page.err then
    return page -- the error
  end
  local names, size, missing = {}, 0, 0
  for i = 1, #page[2] do
    local rest = string.sub(page[2][i], ARGV[4] + 1)
    if #rest <= tonumber(ARGV[5]) then
      local name = #rest .. ':' .. rest
      size = size + #name
      if size > tonumber(ARGV[6]) then
        missing = 1
        break
      end
      names[#names + 1] = name
    end
  end
  if missing == 0 or count <= 1 then
    return {page[1], missing, table.concat(names)}
  end
  count = math.floor(count / 2)
end
