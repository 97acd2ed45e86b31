-- The queue, and the clients that keep its places alive. In a pool's queue there is a line for each member, and
-- one for waiters that take any.

local clients, changed, lines = {}, {}, {}

local function hand_to(client, owner)
  client.handed[#client.handed + 1] = owner
  client.at[owner], client.open = #client.handed, client.open + 1
end

-- The record of a client that waits, or was handed the lock and has not answered; else false.
local function client_of(id)
  local client = clients[id]
  if client == nil then
    local text = get('c' .. id)
    client = false
    if text then
      local deadline, lease, waiting, its_era, rest =
        string.match(text, '^(%d+) (%d+) (%d+) (%d+)(.*)$')
      client = { deadline = tonumber(deadline), lease = tonumber(lease),
        waiting = tonumber(waiting), era = tonumber(its_era), handed = {}, at = {}, open = 0 }
      for owner in string.gmatch(rest, '%x+') do hand_to(client, owner) end
    end
    clients[id] = client
  end
  return client
end

-- Written when the step ends, since that may be a thousand hand-overs of one client.
local function save_client(id, client)
  if client.waiting == 0 and client.open == 0 then
    clients[id] = false
    del('c' .. id)
  end
  changed[id] = true
end

-- The owners of a client that were handed the lock and have not answered, in that order.
local function handed_to(client)
  local owners = {}
  for i = 1, #client.handed do
    if client.handed[i] then owners[#owners + 1] = client.handed[i] end
  end
  return owners
end

function write_clients()
  for id in pairs(changed) do
    local client = clients[id]
    if client then
      local text = client.deadline .. ' ' .. client.lease .. ' ' .. client.waiting .. ' '
        .. client.era
      if client.open > 0 then text = text .. ' ' .. table.concat(handed_to(client), ' ') end
      set('c' .. id, text)
    end
  end
end

-- A sign of life: it makes places last longer, never shorter, since a client's id is no secret.
local function keep_alive(id, lease)
  local client = client_of(id)
  if client then
    if client.era ~= era.number then client.deadline = 0 end
    client.deadline = math.max(client.deadline, now + lease)
    client.lease, client.era = math.max(client.lease, lease), era.number
    if client.waiting > 0 then patience = math.max(patience, client.lease) end
    save_client(id, client)
  end
end

-- A deadline of an earlier era is of a clock that was set back since.
local function is_live(id)
  local client = client_of(id)
  if not client then return false end
  local deadline = client.deadline
  if client.era ~= era.number then deadline = math.min(deadline, era.began + client.lease) end
  return deadline > now
end

-- The client answered a hand-over, or it is gone.
local function answered(id, owner)
  local client = client_of(id)
  local at = client and client.at[owner]
  if not at then return end
  client.handed[at], client.at[owner], client.open = false, nil, client.open - 1
  save_client(id, client)
end

local function line(name)
  local it = lines[name]
  if not it then
    local head, tail = string.match(get(name) or '', '^(%d+) (%d+)$')
    it = { p = 'l', head = head, tail = tail }
    lines[name] = it
  end
  return it
end

local function save_line(name)
  local it = lines[name]
  if it.head then set(name, it.head .. ' ' .. it.tail) else del(name) end
end

-- The field of the line that a request of a pool stands in.
local function line_name(ask)
  return 'l' .. string.match(ask, '^%d*%a(.*)$')
end

local function waiter(place)
  local text = get('w' .. place)
  local ask, label = string.match(text, '^([^\n]*)\n(.*)$', 74)
  return { place = place, since = sub(text, 1, 14) + 0, lease = sub(text, 18, 25) + 0,
    owner = sub(text, 26, 57), client = sub(text, 58, 73), ask = ask, label = label }
end

local function number_of(place)
  return string.match(place, '^%d+')
end

-- Is the number of this place a ticket?
local function is_ballot(place)
  return string.find(place, '.', 1, true) ~= nil
end

-- Numbers are compared as text: places may exceed what Lua counts exactly.
local function is_lower(number, other)
  if #number ~= #other then return #number < #other end
  return number < other
end

local function higher(number, other)
  return is_lower(number, other) and other or number
end

local function successor(number)
  local rest, digit, nines = string.match('0' .. number, '^(%d*)([0-8])(9*)$')
  return (string.gsub(rest .. (digit + 1) .. string.rep('0', #nines), '^0', ''))
end

-- Does this number of this owner come before the place? If at least one of two equal numbers is a
-- ticket, the owners decide.
local function precedes(number, owner, place)
  local other = number_of(place)
  if number ~= other then return is_lower(number, other) end
  return owner < (string.match(place, '%.(%x+)$') or waiter(place).owner)
end

-- Stands a waiter between two neighbours.
local function stand(front, place, behind, w)
  queue.count = queue.count + 1
  queue.next = higher(queue.next, successor(number_of(place)))
  link(queue, front, place, behind)
  if kind == 'p' then
    local name = line_name(w.ask)
    append(line(name), place)
    save_line(name)
  end
  set('w' .. place, string.format('%014.0f000%08d', w.since, w.lease) .. w.owner .. w.client .. w.ask
    .. '\n' .. w.label)
  set('o' .. w.owner, 'w' .. place)
  return place
end

-- Takes a waiter out of all but what is known of its client.
local function take_out(place, w)
  if queue.sweep == place then queue.sweep = after(queue, place) end
  unlink(queue, place)
  queue.count = queue.count - 1
  if kind == 'p' then
    local name = line_name(w.ask)
    unlink(line(name), place)
    save_line(name)
  end
  del('w' .. place)
  del('o' .. w.owner)
end

-- Gives up a place without a grant.
local function leave(place, w)
  take_out(place, w)
  local client = client_of(w.client)
  client.waiting = client.waiting - 1
  save_client(w.client, client)
end

-- Where an owner waits, if it does.
local function place_of(owner)
  return string.match(get('o' .. owner) or '', '^w(.+)$')
end
