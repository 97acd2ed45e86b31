-- A break: takes the lock from its holders, at once or, since they can't renew any more, when their leases end.
-- ARGV: the token of the holder, or - for all; 1 for at once

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
  return 'K ' .. #broken
end)
