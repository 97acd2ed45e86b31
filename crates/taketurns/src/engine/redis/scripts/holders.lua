-- The holders of a lock: in slots without gaps, so that all can be listed.

local function holder(slot)
  local text = get('h' .. slot)
  local ask, label, more = string.match(text, '^([^\n]*)\n([^\n]*\n[^\n]*)(.*)$', 107)
  local member, vote = string.match(more, '^\n([^\n]*)\n(.*)$')
  local number, ticket = string.match(vote or '', '^(%d+) (%d+)$')
  return { slot = slot, handed = sub(text, 1, 1) % 2 == 1, revoked = sub(text, 2, 2) == '1',
    resting = sub(text, 2, 2) == '2',
    token = digits(sub(text, 3, 19)), deadline = sub(text, 20, 33) + 0, since = sub(text, 34, 47) + 0,
    lease = sub(text, 51, 58) + 0, owner = sub(text, 59, 90), client = sub(text, 91, 106), ask = ask,
    label = label, member = member or '', number = number, ticket = ticket }
end

local function save_holder(h)
  local more = ''
  if h.number or h.member ~= '' then
    more = '\n' .. h.member .. '\n' .. (h.number and h.number .. ' ' .. h.ticket or '')
  end
  -- The short cuts are for holders whose end changes nothing else.
  local flags = (h.handed and 10 or 0) + (string.find(h.ask, '^[%do]') and 20 or 0)
    + (h.revoked and 1 or h.resting and 2 or 0)
  set('h' .. h.slot, string.format('%02d', flags)
    .. string.format('%017.0f%014.0f%014.0f000%08d', h.token, h.deadline, h.since, h.lease) .. h.owner
    .. h.client .. h.ask .. '\n' .. h.label .. more)
end

-- Saves a holder in this slot. That in the first is read by every step, and needs no index.
local function move_to_slot(h, slot)
  h.slot = slot
  save_holder(h)
  if slot == 1 then del('o' .. h.owner) else set('o' .. h.owner, 'h' .. slot) end
end

local function holder_of(owner)
  if holders.count > 0 and sub(get('h1'), 59, 90) == owner then return holder(1) end
  local slot = string.match(get('o' .. owner) or '', '^h(%d+)$')
  return slot and holder(tonumber(slot))
end

-- How much of the lock's capacity a request takes.
local function weight_of(ask)
  local letter, permits = string.match(ask, '^%d*(%a)(%d*)')
  if letter == 'w' then return HOLDERS_MAX end
  if letter == 's' then return tonumber(permits) end
  return 1
end

-- Until when a holder stays one, whatever happens: its request begins with how long that is.
function holders.rests_until(h)
  local at_least = string.match(h.ask, '^%d+')
  return at_least and h.since + at_least or 0
end

local function capacity()
  if kind == 'm' or kind == 'o' then return 1 end
  return tonumber(string.match(kind, '^s(%d+)$')) or HOLDERS_MAX
end

-- Is there room for one more holder, with what this waiter asks for?
local function fits(w)
  return holders.weight + weight_of(w.ask) <= capacity() and holders.count < HOLDERS_MAX
end

-- Bounds when leases end. A look at all makes them exact.
local function widen(deadline)
  if holders.count == 1 then
    holders.first, holders.last = deadline, deadline
  else
    holders.first = math.min(holders.first, deadline)
    holders.last = math.max(holders.last, deadline)
  end
end

local function all_holders()
  local fields, all = {}, {}
  for slot = 1, holders.count do fields[slot] = 'h' .. slot end
  if #fields > 0 then fetch(fields) end
  for slot = 1, holders.count do all[slot] = holder(slot) end
  return all
end

local function look_at_all()
  local first, last
  for _, h in ipairs(all_holders()) do
    first, last = math.min(first or h.deadline, h.deadline), math.max(last or 0, h.deadline)
  end
  holders.first, holders.last = first or 0, last or 0
end

-- `is_done` is set if its work is done.
local function drop_holder(h, is_done)
  if h.slot ~= holders.count then move_to_slot(holder(holders.count), h.slot) end
  del('h' .. holders.count)
  del('o' .. h.owner)
  holders.count, holders.weight = holders.count - 1, holders.weight - weight_of(h.ask)
  if holders.count == 0 then holders.first, holders.last = 0, 0 end
  if h.handed then
    answered(h.client, h.owner)
  elseif not is_done then
    once.note_failure(h)
  end
  if h.member ~= '' then give_back(h.member) end
end

-- Ends a hold, but lets it stay a holder until its rest is over.
function holders.rest(h)
  if h.handed then answered(h.client, h.owner) end
  h.handed, h.resting, h.deadline = false, true, holders.rests_until(h)
  save_holder(h)
  widen(h.deadline)
end

-- Extends a lease, never shortens it: a renewal that was delayed must not undo a later one.
local function renew(h, client, lease)
  local kept_by = h.client
  h.client, h.handed = client, false
  h.lease = math.max(h.lease, lease)
  h.deadline = math.max(h.deadline, now + lease)
  save_holder(h)
  widen(h.deadline)
  answered(kept_by, h.owner)
end

-- A hint, as far as it is not too far ahead of our own clock.
local function within_reach(hint)
  return math.min(hint, math.min(now_us, TOKEN_CLOCK_MAX) + HINT_AHEAD)
end

-- The next token: more than the last, and at least the clock. The nodes of a quorum have different clocks, so
-- they follow the client's hint, and their own clock only where they know no token.
local function mint(hint)
  local floor = math.min(now_us, TOKEN_CLOCK_MAX)
  if hint and last_token == 0 then
    floor = math.max(within_reach(hint), floor)
  elseif hint then
    floor = within_reach(hint)
  end
  last_token = math.max(last_token + 1, floor)
  return digits(last_token)
end

-- How many tokens in a row a request for turns asks for, or has: its client passes on the turns itself.
local function tokens_of(ask)
  return tonumber(string.match(ask, '^[mk](%d+)$'))
end

-- Does its client keep the lock until it is wanted? Not if it was broken: then it passes on at the deadline.
local function stays(h)
  return not h.revoked and string.sub(h.ask, 1, 1) == 'k'
end

-- Reserves the tokens after the last, as many as are asked for and not too far ahead of the clock. Answers the
-- request with the number that it got.
local function reserve(ask)
  local tokens = tokens_of(ask)
  if not tokens then return ask end
  local room = math.min(now_us, TOKEN_CLOCK_MAX) + TOKENS_AHEAD - last_token
  local more = math.max(0, math.min(tokens - 1, room))
  last_token = last_token + more
  return string.sub(ask, 1, 1) .. more + 1
end

-- Mints a token and adds the holder. A request with a ballot has a hint, and maybe a ticket.
local function grant(w, member, lease, handed, hint, ticket)
  local number = mint(hint)
  local ask = reserve(w.ask)
  if member then hold_member(member) end
  holders.count, holders.weight = holders.count + 1, holders.weight + weight_of(w.ask)
  local h = { slot = holders.count, owner = w.owner, client = w.client, token = number, ask = ask,
    member = member or '', lease = w.lease, deadline = now + lease, since = now, handed = handed,
    revoked = false, number = hint and number, ticket = ticket or number, label = w.label }
  move_to_slot(h, h.slot)
  widen(h.deadline)
  return h
end

-- Has a waiter a lower ticket than this holder? It may be dead by now, which the holder finds out if it yields.
local function is_inquired(h)
  return h.number and queue.head and not precedes(h.ticket, h.owner, queue.head)
end

local function is_lease(lease)
  return lease >= LEASE_MIN and lease <= LEASE_MAX
end
