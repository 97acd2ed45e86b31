-- What every step does before and after its request: it catches up with time, and hands over what is free.

-- The name of an owner that others may know. The owner itself is a secret.
local function public_id(owner)
  return string.sub(redis.sha1hex(owner), 1, 16)
end

-- Wakes one owner of one client. Sealed with the owner, so that no other client can forge it.
local function wake(client, owner, event)
  local body = public_id(owner) .. ' ' .. string.sub(RUN, 1, 16) .. ' ' .. event
  wakes[#wakes + 1] = { CHANNEL .. client, redis.sha1hex(owner .. body) .. ' ' .. body }
end

-- Tells the client that keeps the lock that another one wants it. Answers whether one does. Only a mutex is
-- kept, and that has one holder.
local function want()
  local h = holders.count > 0 and holder(1)
  if not h or not stays(h) then return false end
  wake(h.client, h.owner, 'W ' .. h.token)
  return true
end

-- Tells a holder that its grant is broken: which one, by the token as it was minted.
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

-- Refuses an acquire of this owner until then.
local function bury(owner, until_ms)
  until_ms = math.min(tonumber(until_ms), now + RETENTION)
  if until_ms <= now then return end
  if not get('b' .. owner) then
    set('t' .. tombs.next, owner)
    tombs.next = tombs.next + 1
  end
  set('b' .. owner, until_ms)
  if tombs.next - tombs.first > TOMBS_MAX then drop_tomb() end
end

local function catch_up()
  if now < seen then
    -- The clock was set back: no lease, and no waiter lease, lasts longer for that.
    era.number, era.began = era.number + 1, now
    for _, h in ipairs(all_holders()) do
      local lease, client = h.lease, client_of(h.client)
      if h.handed and client then lease = math.min(lease, client.lease) end
      if h.resting then lease = holders.rests_until(h) - h.since end
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
    for _, h in ipairs(due) do
      local it = holder_of(h.owner)
      -- One that was never answered rests no more than it works: its waiter may have died before.
      if not (it.handed or it.resting) and holders.rests_until(it) > now then
        holders.rest(it)
      else
        drop_holder(it)
      end
    end
    look_at_all()
  end
  if work and work.ends <= now then
    work = nil
  elseif work and work.ended and now < seen then
    work.ended = math.min(work.ended, now)
  end
end

-- Who is next? Answers what to do with a place, the place, its waiter, and in a pool the member, or why it is refused.
local function next_in_line()
  if holders.weight >= capacity() or not queue.head then return nil end
  local w = waiter(queue.head)
  local bar, told
  if work then bar, told = once.bar(w.ask) end
  if bar == 'done' then return 'refuse', queue.head, w, told end
  if not is_live(w.client) then return 'skip', queue.head, w end
  if weight_of(w.ask) > capacity() then return 'refuse', queue.head, w, kind_mismatch() end
  if bar == 'exhausted' then return 'refuse', queue.head, w, told end
  if not bar and fits(w) then return 'grant', queue.head, w end
end

-- The first place that wants this member: by name, or any.
local function foremost_for(member)
  local by_name, any = line('l' .. member).head, line('l').head
  if by_name and any and is_lower(any, by_name) then return any end
  return by_name or any
end

-- Offers each freed member to the first waiter that wants it.
local function next_for_a_member()
  while members.offer do
    local member = get('f' .. members.offer)
    local place = foremost_for(member)
    if place then
      local w = waiter(place)
      return is_live(w.client) and 'grant' or 'skip', place, w, member
    end
    members.offer = after(members, members.offer)
  end
  -- Without members nothing can be granted, but the dead must not keep the lock in use.
  if members.count == 0 and queue.head then
    local w = waiter(queue.head)
    if not is_live(w.client) then return 'skip', queue.head, w end
  end
end

-- What a holder is told of its grant. A token is followed by how many are reserved with it, with a mark if the
-- lock is kept and wanted; that of a vote by its number and ticket, with a mark if it is inquired about.
local function granted(letter, h)
  local vote, tokens = '', tokens_of(h.ask)
  if tokens and tokens > 1 then vote = '+' .. tokens - 1 end
  if queue.head and stays(h) then vote = vote .. '!' end
  if h.number then vote = '/' .. h.number .. '/' .. h.ticket .. (is_inquired(h) and '!' or '') end
  return letter .. ' ' .. h.token .. vote .. ' ' .. h.deadline .. ' ' .. h.member
end

local function settle()
  -- That work is done is no grant.
  if now < quarantine and not (work and work.token) then return end
  while true do
    local what, place, w, member
    if kind == 'p' then
      what, place, w, member = next_for_a_member()
    else
      what, place, w, member = next_in_line()
    end
    if not what then return end
    if left == 0 then
      more = 1
      return
    end
    left = left - 1
    if what == 'grant' then
      -- It may have died since its last refresh: it gets no more than a waiter lease until it answers.
      local client = client_of(w.client)
      local lease = math.min(w.lease, client.lease)
      hand_to(client, w.owner)
      client.waiting = client.waiting - 1
      save_client(w.client, client)
      take_out(place, w)
      local hint = is_ballot(place) and 0 or nil
      local h = grant(w, member, lease, true, hint, number_of(place))
      wake(w.client, w.owner, granted('G', h))
    else
      leave(place, w)
      if what == 'refuse' then wake(w.client, w.owner, member) end
    end
  end
end

local function recheck()
  if now < quarantine then return quarantine end
  return holders.count > 0 and holders.first or work and once.pause_of_head() or '-'
end

local function quarantined()
  return now < quarantine and quarantine or '-'
end

-- The number of the first place, or of the next if the queue is empty.
local function front()
  return queue.head and number_of(queue.head) or queue.next
end

-- A whole step, from the fields that it reads to its answer. All but `request` is the same in every script.
local function step(fields, request)
  load(fields)
  catch_up()
  settle()
  local reply = request()
  settle()
  return finish(reply)
end
