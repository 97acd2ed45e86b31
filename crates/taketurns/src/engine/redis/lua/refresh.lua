-- Keep all places of one client alive, and say which of them hold the lock by now. They are not
-- renewed by this: the client may know nothing of one any more (it comes from a state that was
-- restored), and then nobody would give it back.
-- ARGV: client, waiter lease

local id, lease = ARGV[1], tonumber(ARGV[2])

local failed = load('c' .. id)
if failed then return failed end
catch_up()
settle()
local reply
if not is_lease(lease) then
  reply = 'X lease'
else
  keep_alive(id, lease)
  local client = client_of(id)
  local told = {}
  for _, owner in ipairs(client and handed_to(client) or {}) do
    local h = holder_of(owner)
    if h and not h.revoked then
      told[#told + 1] = '\n' .. owner .. ' ' .. granted('G', h)
    end
  end
  client = client_of(id)
  reply = 'F ' .. (client and client.waiting or 0) .. ' ' .. front() .. ' ' .. recheck()
    .. ' ' .. quarantined() .. table.concat(told)
end
settle()
return finish(reply)
