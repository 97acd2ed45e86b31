-- A client that is known to have died: its places are dead, and what was just handed to it passes on.
-- ARGV: client

local id = ARGV[1]

return step({ 'c' .. id }, function()
  local client = client_of(id)
  if client then
    local handed = handed_to(client)
    client.deadline = math.min(client.deadline, now)
    save_client(id, client)
    for _, owner in ipairs(handed) do drop_holder(holder_of(owner)) end
  end
  return 'D'
end)
