-- protocol=redturn: a list of `id:channel:timeout`. Its head holds the lock until a client pops it: the
-- holder, or any client that has seen it there for its timeout.
--
--   gh   the head by which a client of ours holds
--   gu   the foreign head that was told its turn while no client heard it
--   gt<place>  for how long the waiter at this place may be the head without taking its turn
--
-- The entry of a waiter of ours has its place in its id, so that it is known again. It is no hold, even at
-- the head: the grant, and each renewal, replace it by one with an id that no client can have timed yet. So
-- no lease of ours ends early.

local list = KEYS[#KEYS]
-- Where a client of ours hears foreign clients. They split the entries of the list at every colon.
local EAR = string.gsub(CHANNEL, ':', '.')
-- How long a foreign client that heard nothing may take to come back.
local GRACE = 1000
-- For a head that does not say how long it holds, however short our own leases are.
local UNREADABLE = math.max(MAX_LEASE, 60000)
local head, gave_back

function foreign.load()
  head = redis.pcall('LINDEX', list, 0)
  if type(head) == 'table' then return unreadable('a list', head) end
end

local function entry(id, client, timeout)
  return id .. ':' .. EAR .. client .. ':' .. timeout
end

local function entry_of(w)
  local timeout = get('gt' .. w.place) or w.lease
  return entry(w.place .. 'x' .. string.sub(public_owner(w.owner), 1, 16), w.client, timeout)
end

-- The place of ours that this entry stands for, whether it is still taken or not.
local function place_in(value)
  local place, channel = string.match(value, '^(%d+)x%x+:([^:]*%.)%x+:%d+$')
  return channel == EAR and place
end

local function waiter_in(value)
  local place = place_in(value)
  local w = place and get('w' .. place) and waiter(place)
  return w and entry_of(w) == value and w
end

local function timeout_of(value)
  local timeout = tonumber(string.match(value, '^[^:]*:[^:]*:(%d+)$'))
  if not timeout or timeout < 1 then return UNREADABLE end
  return math.min(timeout, LEASE_MAX)
end

-- Can nobody listen but where we publish? Subscribers of other servers are not counted.
local function is_alone()
  -- Scripts that see no marker may be those of a Cluster.
  if MARK == '' then return false end
  local info = redis.pcall('INFO', 'replication')
  return type(info) == 'string' and string.find(info, 'connected_slaves:0', 1, true) ~= nil
end

-- What a client is told when it is the head: `list:id` by the document, `id:list` by redturn.ts, whose ids
-- are milliseconds and a counter. Each gets its own form only: redturn.ts takes any message for an id and a
-- list, releases what it does not wait for, and raises an error if there is no such list.
local function message_to(id)
  if string.find(id, '^%d+%.%d+$') then return id .. ':' .. list end
  return list .. ':' .. id
end

-- Tells the foreign client at the head that it holds, from when on its timeout counts. May it have heard?
local function tell()
  local id, channel = string.match(head, '^([^:]*):([^:]*)')
  local count = id and redis.pcall('PUBLISH', channel, message_to(id))
  -- We may have no right to publish: then other clients have to find out.
  local heard = type(count) ~= 'number' or count > 0 or not is_alone()
  local it = redis.sha1hex(head)
  set('gs', now .. ' ' .. it)
  if heard then del('gu') else set('gu', it) end
  return heard
end

-- Is the timeout of the foreign head over? If not, notes when to ask again.
local function is_over()
  local it = redis.sha1hex(head)
  local since = seen_since(it)
  if get('gu') == it then
    ask_again_at = since + GRACE
    if now < ask_again_at then return false end
    if not tell() then return true end
    since = now
  end
  ask_again_at = since + timeout_of(head)
  return now >= ask_again_at
end

local function pop()
  redis.call('LPOP', list)
  head = redis.call('LINDEX', list, 0)
end

local function forget_foreign_head()
  if get('gs') then del('gs') end
  if get('gu') then del('gu') end
end

-- Pops heads that are over, until the head is a foreign client within its timeout, or a waiter of ours, which
-- is the answer then. A new head is told.
local function advance(is_new)
  for _ = 1, STEP_MAX do
    local w = head and waiter_in(head)
    if w or not head then
      ask_again_at = nil
      forget_foreign_head()
      return w
    end
    local place = place_in(head)
    if place then
      -- Left behind by a waiter that gave up its place on a native client.
      del('gt' .. place)
    else
      if is_new then tell() end
      if not is_over() then return nil end
    end
    pop()
    is_new = true
  end
  ask_again_at = now
end

-- The list has our order, unless a waiter of ours was popped. Then our first waiter takes the turn of the
-- waiter of ours at the head, and gives it its own, or one at the end.
local function change_turns(w, first)
  local own = redis.call('LPOS', list, entry_of(w))
  if own then
    redis.call('LSET', list, own, entry_of(first))
  else
    redis.call('RPUSH', list, entry_of(first))
  end
  head = entry_of(w)
  redis.call('LSET', list, 0, head)
end

function foreign.blocks(w)
  local first = advance(false)
  if not head then
    -- Its entry was taken away.
    if w.place then del('gt' .. w.place) end
    return false
  end
  if first then
    if first.place ~= w.place then change_turns(w, first) end
    return false
  end
  if w.place and not redis.call('LPOS', list, entry_of(w)) then
    redis.call('RPUSH', list, entry_of(w))
  end
  return true
end

-- A client that holds already comes before those that wait.
function foreign.is_open()
  local first = advance(false)
  if first then
    redis.call('LPUSH', list, '')
    head = ''
  end
  return first or not head
end

function foreign.holds()
  return head and head == get('gh')
end

-- The head, if there is one, is the entry whose turn it is.
function foreign.take(h)
  local place = head and place_in(head)
  if place then del('gt' .. place) end
  local id = string.sub(redis.sha1hex(h.owner .. digits(now_us) .. (get('gh') or '')), 1, 24)
  local value = entry(id, h.client, h.deadline - now)
  if head then redis.call('LSET', list, 0, value) else redis.call('RPUSH', list, value) end
  head = value
  set('gh', value)
end

function foreign.keep(h)
  if foreign.holds() then foreign.take(h) end
end

function foreign.drop()
  local held = foreign.holds()
  del('gh')
  if not held then return end
  gave_back = true
  pop()
  advance(true)
end

function foreign.stand(w)
  -- No client is known to live for longer than its waiter lease. If only foreign clients are left, it is they
  -- that pop the dead, one by one.
  set('gt' .. w.place, math.min(w.lease, client_of(w.client).lease))
  local value = entry_of(w)
  redis.call('RPUSH', list, value)
  head = head or value
end

function foreign.leave(w)
  if not w.place then
    -- A native client handed it the lock: its entry is not known again until it is the head.
    advance(false)
    return
  end
  if head == entry_of(w) then
    pop()
    advance(true)
  else
    redis.call('LREM', list, 1, entry_of(w))
  end
  del('gt' .. w.place)
end

-- A client that came to be the head by this very step is not meant.
function foreign.is_held()
  return head and not gave_back and not place_in(head)
end

function foreign.evict()
  pop()
  advance(true)
  return 1
end

-- Clients that never wait would start the timeout of a foreign head anew each time.
function foreign.remembers()
  return get('gs')
end
