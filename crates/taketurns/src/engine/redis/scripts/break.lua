-- A break: takes the lock from its holders, at once or, since they can't renew any more, when their leases end.
-- ARGV: a token of the holder, or - for all; 1 for at once

local token = tonumber(ARGV[1])

-- With local turns a holder has several tokens.
local function is_meant(h)
  local first = tonumber(h.token)
  return not token or first <= token and token < first + (tokens_of(h.ask) or 1)
end

return step({}, function()
  local broken = {}
  for _, h in ipairs(all_holders()) do
    if is_meant(h) then broken[#broken + 1] = h end
  end
  table.sort(broken, function(a, b) return a.owner < b.owner end)
  for _, h in ipairs(broken) do
    local it = holder_of(h.owner)
    if ARGV[2] == '1' or it.resting then
      drop_holder(it)
    else
      it.revoked, it.ask = true, string.match(it.ask, '^%d*(.*)$')
      save_holder(it)
      widen(it.deadline)
    end
    if not it.resting then wake_revoked(it) end
  end
  return 'K ' .. #broken
end)
