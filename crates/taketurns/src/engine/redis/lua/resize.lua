-- Give a semaphore another number of permits.
-- ARGV: permits

local permits = tonumber(ARGV[1])

local failed = load()
if failed then return failed end
catch_up()
settle()
local reply
if permits < 1 or permits > PERMITS_MAX then
  reply = 'X permits'
elseif in_use() and string.sub(kind, 1, 1) ~= 's' then
  reply = kind_mismatch()
else
  reply = kind == 's' .. permits and 'C 0' or 'C 1'
  kind = 's' .. permits
end
settle()
return finish(reply)
