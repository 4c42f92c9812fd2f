-- Returns names of keys, and changes nothing. ARGV: SCAN's cursor, pattern and
-- COUNT; how many names of this page to pass over; how many bytes of each name
-- are the prefix, which is left out; and the length of the longest rest that is
-- asked for. Returns the cursor of the next page, and how many names of that to
-- pass over; and the names. If a page has more than a reply may (R32), the next
-- one is this page again. It touches no key.
local page = redis.pcall('SCAN', ARGV[1], 'MATCH', ARGV[2], 'COUNT', ARGV[3])
if page.err then
  return page -- the error
end
local names, said, size = page[2], {page[1], 0}, 0
for i = ARGV[4] + 1, #names do
  local rest = string.sub(names[i], ARGV[5] + 1)
  if #rest <= tonumber(ARGV[6]) then
    size = size + #rest
    if #said == 60 or size > 2800 then
      said[1], said[2] = ARGV[1], i - 1
      return said
    end
    said[#said + 1] = rest
  end
end
return said
