-- Revoke: no renewal from now on. At once, or when the lease ends.
-- ARGV: the token of the one to revoke, or - for all; 1 for at once

return step({}, function()
  local broken = {}
  for _, h in ipairs(all_holders()) do
    if ARGV[1] == '-' or ARGV[1] == h.token then broken[#broken + 1] = h end
  end
  table.sort(broken, function(a, b) return a.owner < b.owner end)
  for _, h in ipairs(broken) do
    local it = holder_of(h.owner)
    if ARGV[2] == '1' then
      drop_holder(it)
    else
      it.revoked = true
      save_holder(it)
      widen(it.deadline)
    end
    wake_revoked(it)
  end
  local count = #broken
  if ARGV[1] == '-' and gate.is_strange() and ARGV[2] ~= '1' then return gate.cannot_be_told() end
  if ARGV[1] == '-' and gate.is_strange() then count = count + gate.evict() end
  return 'K ' .. count
end)
