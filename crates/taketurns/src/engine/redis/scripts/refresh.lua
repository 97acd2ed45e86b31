-- A refresh: keeps all places of one client alive, and says which of them hold the lock by now. Their leases
-- are not renewed: the client may not know one any more (it comes from a state that was restored), and would
-- never release it.
-- ARGV: client, waiter lease

local id, lease = ARGV[1], tonumber(ARGV[2])

return step({ 'c' .. id }, function()
  if not is_lease(lease) then return 'X lease' end
  keep_alive(id, lease)
  local client, told = client_of(id), {}
  -- Repeated, since the first message may have been lost.
  if client and client.waiting > 0 then want() end
  for _, owner in ipairs(client and handed_to(client) or {}) do
    local h = holder_of(owner)
    if h and not h.revoked then told[#told + 1] = '\n' .. public_id(owner) .. ' ' .. granted('G', h) end
  end
  return 'F ' .. (client and client.waiting or 0) .. ' ' .. front() .. ' ' .. recheck() .. ' '
    .. quarantined() .. table.concat(told)
end)
