-- Stretch a held lease. One that ran out is gone, and is never recreated.
-- ARGV: owner, client, lease

local owner, lease = ARGV[1], tonumber(ARGV[3])

return step({ 'o' .. owner, 'c' .. ARGV[2] }, function()
  if not is_lease(lease) then return 'X lease' end
  local h = holder_of(owner)
  if not h then return 'H' end
  if h.revoked then return 'V' end
  renew(h, ARGV[2], lease)
  return granted('N', h)
end)
