-- What every step does before and after its request: catch up with time, hand over what is free.

-- By what an owner is named to all but itself: it is a secret.
local function public_id(owner)
  return string.sub(redis.sha1hex(owner), 1, 16)
end

-- To one owner of one client. Sealed with the owner's secret, so that nobody else can make one up.
local function wake(client, owner, event)
  local body = public_id(owner) .. ' ' .. string.sub(RUN, 1, 16) .. ' ' .. event
  wakes[#wakes + 1] = { CHANNEL .. client, redis.sha1hex(owner .. body) .. ' ' .. body }
end

-- To a holder whose grant is broken: says which, by the token as it was minted.
local function wake_revoked(h)
  wake(h.client, h.owner, 'V ' .. (h.number or h.token))
end

local function kind_mismatch()
  return 'X kind ' .. kind
end

local function drop_tomb()
  local owner = get('t' .. tombs.first)
  del('t' .. tombs.first)
  del('b' .. owner)
  tombs.first = tombs.first + 1
  if tombs.first == tombs.next then tombs.first, tombs.next = 0, 0 end
end

local function catch_up()
  if now < seen then
    -- The clock was set back: nobody holds, or is taken for alive, for longer than its lease.
    era.number, era.began = era.number + 1, now
    for _, h in ipairs(all_holders()) do
      local lease, client = h.lease, client_of(h.client)
      if h.handed and client then lease = math.min(lease, client.lease) end
      h.deadline, h.since = math.min(h.deadline, now + lease), math.min(h.since, now)
      save_holder(h)
    end
    look_at_all()
  end
  for _ = 1, STEP_MAX do
    if tombs.first == tombs.next or tonumber(get('b' .. get('t' .. tombs.first))) > now then
      break
    end
    drop_tomb()
  end
  if holders.count > 0 and holders.first <= now then
    local due = {}
    for _, h in ipairs(all_holders()) do
      if h.deadline <= now then due[#due + 1] = h end
    end
    table.sort(due, function(a, b)
      if a.deadline ~= b.deadline then return a.deadline < b.deadline end
      return a.owner < b.owner
    end)
    for _, h in ipairs(due) do drop_holder(holder_of(h.owner)) end
    look_at_all()
  end
  gate.catch_up()
end

-- Who is next? What to do with the place at the head, the place, its waiter, and a pool's member.
local function next_in_line()
  if holders.weight >= capacity() or not queue.head then return nil end
  local w = waiter(queue.head)
  if not is_live(w.client) then return 'skip', queue.head, w end
  if weight_of(w.ask) > capacity() then return 'refuse', queue.head, w end
  if gate.blocked(w) then return nil end
  if fits(w.ask) then return 'grant', queue.head, w end
end

-- Offers each freed member to the foremost of those who want it: by name, or any.
local function next_for_a_member()
  while members.offer do
    local member = get('f' .. members.offer)
    local by_name, any = line('l' .. member).head, line('l').head
    local place = by_name or any
    if by_name and any and is_lower(any, by_name) then place = any end
    if place and gate.is_closed(member) then place = nil end
    if place then
      local w = waiter(place)
      return is_live(w.client) and 'grant' or 'skip', place, w, member
    end
    members.offer = after(members, members.offer)
  end
  -- Without members nobody can be granted, but the dead must not keep the lock in use.
  if members.count == 0 and queue.head then
    local w = waiter(queue.head)
    if not is_live(w.client) then return 'skip', queue.head, w end
  end
end

-- What a holder is told of its grant. A token with which others are reserved is followed by how many. A
-- vote's token is followed by its number and ticket, with a mark if it is inquired about.
local function granted(letter, h)
  local vote, tokens = '', tokens_of(h.ask)
  if tokens and tokens > 1 then vote = '+' .. tokens - 1 end
  if h.number then vote = '/' .. h.number .. '/' .. h.ticket .. (is_inquired(h) and '!' or '') end
  return letter .. ' ' .. h.token .. vote .. ' ' .. h.deadline .. ' ' .. h.member
end

local function settle()
  if now < quarantine then return end
  while true do
    local what, place, w, member
    if kind == 'p' then
      what, place, w, member = next_for_a_member()
    else
      what, place, w = next_in_line()
    end
    if not what then return end
    if left == 0 then
      more = 1
      return
    end
    left = left - 1
    if what == 'grant' then
      -- It may have died since its last refresh, so it gets no more than a waiter lease until it
      -- answers.
      local client = client_of(w.client)
      local lease = math.min(w.lease, client.lease)
      hand_to(client, w.owner)
      leave(place, w)
      local hint = is_ballot(place) and 0 or nil
      local h = grant(w, member, lease, true, hint, number_of(place))
      wake(w.client, w.owner, granted('G', h))
    else
      leave(place, w)
      gate.leave(w)
      if what == 'refuse' then wake(w.client, w.owner, kind_mismatch()) end
    end
  end
end

local function recheck()
  if now < quarantine then return quarantine end
  if gate.recheck then return math.min(gate.recheck, holders.count > 0 and holders.first or gate.recheck) end
  return holders.count > 0 and holders.first or '-'
end

local function quarantined()
  return now < quarantine and quarantine or '-'
end

-- Where the queue begins, or will.
local function front()
  return queue.head and number_of(queue.head) or queue.next
end

-- One step, from what it reads to its answer. `request` is what this script is about; everything else
-- is the same for all.
local function step(fields, request)
  local failed = load(fields)
  if failed then return failed end
  catch_up()
  settle()
  if gate.is_alien() then return gate.alien() end
  local reply = request()
  if type(reply) == 'table' then return reply end -- gate.
  settle()
  return finish(reply)
end
