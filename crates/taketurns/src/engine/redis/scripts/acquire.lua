-- An acquire: holds the lock, or waits for it. To send it again does no harm.
-- ARGV: "lease owner client ask", a newline and the label, as head.lua says; waiter lease or -; not after; and, if
-- a majority of nodes decides, a ballot: "hint ticket yields", with - for none

local owner, client = sub(ARGV[1], 9, 40), sub(ARGV[1], 41, 56)
local ask, label = string.match(ARGV[1], '^([^\n]*)\n(.*)$', 57)
local lease, waiter_lease, not_after = sub(ARGV[1], 1, 8) + 0, tonumber(ARGV[2]), tonumber(ARGV[3])
local at_least, bare = string.match(ask, '^(%d*)(.*)$')
local hint, ticket, yields = string.match(ask == 'm' and ARGV[4] or '', '^(%d+) (%S+) (%S+)$')
hint = tonumber(hint)
ticket = ticket and ticket ~= '-' and digits(token_of(ticket)) or nil

local function kind_of_ask()
  local letter = string.sub(bare, 1, 1)
  if letter == 'r' or letter == 'w' then return 'r' end
  if letter == 'a' or letter == 'n' then return 'p' end
  if letter == 's' then return 's' .. string.match(ask, '/(%d+)$') end
  return letter == 'o' and 'o' or 'm'
end

-- May the lock stay taken for so long, whatever the holder does? Not for turns, and not for work.
function once.may_rest()
  if at_least == '' then return true end
  return is_lease(at_least + 0) and not string.find(bare, '^[mk]%d') and not once.terms(bare)
end

local function is_possible()
  local tokens = tonumber(string.match(ask, '^[mk](%d+)$'))
  if tokens then return tokens >= 1 and tokens <= LOCAL_TURNS_MAX end
  local keep, offset, _, pause = once.terms(ask)
  if keep then
    keep = tonumber(keep)
    return keep >= REMEMBER[1] and keep <= REMEMBER[2] and (offset == '-' or tonumber(offset) < keep)
      and tonumber(pause) <= LEASE_MAX
  end
  local take, of = string.match(bare, '^s(%d+)/(%d+)$')
  if not take then return true end
  take, of = tonumber(take), tonumber(of)
  return take >= 1 and take <= of and of <= PERMITS_MAX
end

-- One more place of this client.
local function count_in(id, waiter_lease)
  local client = client_of(id)
  if not client then
    client = { deadline = 0, lease = 0, waiting = 0, era = 0, handed = {}, at = {}, open = 0 }
    clients[id] = client
  end
  client.waiting = client.waiting + 1
  keep_alive(id, waiter_lease)
end

-- Stands a waiter at its ticket, which is sought from the tail.
local function stand_at(ticket, w)
  local front, behind = queue.tail, nil
  while front and precedes(ticket, w.owner, front) do
    front, behind = before(queue, front), front
  end
  return stand(front, ticket .. '.' .. w.owner, behind, w)
end

-- The same, sought from the head.
local function stand_near_the_head(ticket, w)
  local front, behind = nil, queue.head
  while behind and not precedes(ticket, w.owner, behind) do
    front, behind = behind, after(queue, behind)
  end
  return stand(front, ticket .. '.' .. w.owner, behind, w)
end

-- Moves a waiter to another ticket.
local function move_to(place, ticket)
  if number_of(place) == ticket then return place end
  local w = waiter(place)
  take_out(place, w)
  return stand_at(ticket, w)
end

-- Looks at the next few places in turn and drops those of the dead, so that they can't pile up
-- behind the living.
local function sweep()
  for _ = 1, SWEEP do
    local place = queue.sweep or queue.head
    if not place then return end
    queue.sweep = after(queue, place)
    local w = waiter(place)
    if not is_live(w.client) then leave(place, w) end
  end
end

local function queued(place)
  return 'Q ' .. number_of(place) .. ' ' .. front() .. ' ' .. recheck() .. ' ' .. quarantined()
end

-- Tells the holder, if the waiter that has just come to stand here comes before it.
local function inquire(place)
  -- Only a mutex has votes, and that has one holder.
  if kind ~= 'm' or queue.head ~= place or holders.count == 0 then return end
  local h = holder(1)
  if is_inquired(h) then wake(h.client, h.owner, 'I ' .. h.number) end
end

local function enter(w)
  count_in(client, waiter_lease)
  local place
  if hint then
    -- Behind all that this node knows.
    local free = higher(queue.next, digits(last_token + 1))
    local h = holders.count > 0 and holder(1)
    if h and h.number then free = higher(free, successor(h.ticket)) end
    place = stand_at(ticket or higher(digits(within_reach(hint)), free), w)
  else
    place = stand(queue.tail, queue.next, nil, w)
  end
  if queue.count == 1 then want() end
  inquire(place)
  return place
end

-- The holder asks again with a ballot: takes over the ticket, and gives up the vote if that is asked. The vote
-- is handed to the first in line then, which may be the same owner.
local function vote_again(h)
  h.ticket = ticket or h.ticket
  local waits = waiter_lease and is_lease(waiter_lease) and queue.count < QUEUE_MAX
  if not (yields == h.number and waits) then
    save_holder(h)
    return granted('G', h)
  end
  drop_holder(h)
  -- Its next vote must have a larger number than this one, also if this node has forgotten it since.
  last_token = math.max(last_token, within_reach(hint))
  h.client = client
  local place = stand_near_the_head(h.ticket, h)
  count_in(client, waiter_lease)
  return queued(place)
end

local function newcomer()
  if now >= not_after then return 'X late' end
  if (tonumber(get('b' .. owner)) or 0) > now then return 'X cancelled' end
  if not once.may_rest() or not is_lease(lease) or (waiter_lease and not is_lease(waiter_lease)) then
    return 'X lease'
  end
  if not is_possible() then return once.terms(ask) and 'X terms' or 'X permits' end
  if in_use() and kind ~= kind_of_ask() then return kind_mismatch() end
  local bar, told
  if work then bar, told = once.bar(ask) end
  if told then return told end
  if not in_use() then kind = kind_of_ask() end
  local w = { owner = owner, client = client, ask = ask, lease = lease, since = now, label = label }
  if now >= quarantine then
    if kind == 'p' then
      local member = open_member(string.match(bare, '^n(.*)$'))
      if member then return granted('G', grant(w, member, lease, false)) end
    elseif queue.count == 0 and not bar and fits(w) then
      return granted('G', grant(w, nil, lease, false, hint, ticket))
    end
  end
  if not waiter_lease then
    if now < quarantine then return 'X quarantined ' .. quarantine end
    return queue.count == 0 and want() and 'S' or 'B'
  end
  if now >= quarantine then sweep() end
  if queue.count >= QUEUE_MAX then return 'X full' end
  -- Free members were passed by in the quarantine, though no waiter was before the newcomer.
  if now < quarantine then members.offer = members.head end
  return queued(enter(w))
end

return step({ 'o' .. owner, 'b' .. owner, 'c' .. client }, function()
  local h = holder_of(owner)
  if h and h.resting then return 'X cancelled' end
  if h then return h.number and hint and vote_again(h) or granted('G', h) end
  local place = place_of(owner)
  if not place then return newcomer() end
  if waiter_lease then
    if not is_lease(waiter_lease) then return 'X lease' end
    keep_alive(client, waiter_lease)
  end
  if ticket and is_ballot(place) then
    place = move_to(place, ticket)
    inquire(place)
  end
  return queued(place)
end)
