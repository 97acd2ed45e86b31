-- A resize: gives a semaphore another number of permits.
-- ARGV: permits

local permits = tonumber(ARGV[1])

return step({}, function()
  if permits < 1 or permits > PERMITS_MAX then return 'X permits' end
  if in_use() and string.sub(kind, 1, 1) ~= 's' then return kind_mismatch() end
  local before = kind
  kind = 's' .. permits
  return kind == before and 'C 0' or 'C 1'
end)
