-- A client is known to have died: its places are dead, and what was just handed to it passes on.
-- ARGV: client

local id = ARGV[1]

local failed = load('c' .. id)
if failed then return failed end
catch_up()
settle()
local client = client_of(id)
if client then
  local handed = handed_to(client)
  client.deadline = math.min(client.deadline, now)
  save_client(id, client)
  for _, owner in ipairs(handed) do drop_holder(holder_of(owner)) end
end
settle()
return finish('D')
