-- Stretch a held lease. One that ran out is gone, and is never recreated.
-- ARGV: owner, client, lease

local owner, lease = ARGV[1], tonumber(ARGV[3])

local failed = load('o' .. owner, 'c' .. ARGV[2])
if failed then return failed end
catch_up()
settle()
local reply
local h = holder_of(owner)
if not is_lease(lease) then
  reply = 'X lease'
elseif not h then
  reply = 'H'
elseif h.revoked then
  reply = 'V'
else
  renew(h, ARGV[2], lease)
  reply = granted('N', h)
end
settle()
return finish(reply)
