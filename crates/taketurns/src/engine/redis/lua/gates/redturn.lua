-- protocol=redturn: a list of `id:channel:timeout`. Its head holds the lock until somebody pops it: the
-- holder, or anybody who has seen it there for its timeout.
--
--   gh   the head by which one of ours holds
--   gu   the stranger at the head that was told so, and that nobody heard
--   gt<place>  for how long what waits there may be the head and not take its turn
--
-- What stands there for one of ours that waits has its place in its id, so that it is known again. It
-- is no hold, even at the head: with the grant, and with each renewal, it is replaced by one with an id
-- that nobody can have timed yet. So no lease of ours ends before its time.

local list = KEYS[#KEYS]
-- Where a client of ours hears strangers. They part what stands in the list at every colon.
local EAR = string.gsub(CHANNEL, ':', '.')
-- How long a stranger that heard nothing may take to come back.
local GRACE = 1000
-- For a head that does not say how long it holds, however short our own leases are.
local UNREADABLE = math.max(MAX_LEASE, 60000)
local head, gave_back

function wire.load()
  head = redis.pcall('LINDEX', list, 0)
  if type(head) == 'table' then return unreadable('a list', head) end
end

local function entry(id, client, timeout)
  return id .. ':' .. EAR .. client .. ':' .. timeout
end

local function entry_of(w)
  local timeout = get('gt' .. w.place) or w.lease
  return entry(w.place .. 'x' .. string.sub(wire_id(w.owner), 1, 16), w.client, timeout)
end

-- Which of our places it stands for, be it still taken or not.
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
-- are milliseconds and a counter. Each is told in its own words alone: redturn.ts takes any message for an
-- id and a list, releases what it does not wait for, and raises an error if there is no such list.
local function message_to(id)
  if string.find(id, '^%d+%.%d+$') then return id .. ':' .. list end
  return list .. ':' .. id
end

-- Tells the stranger at the head that it is. From then on its time counts. Might it have heard?
local function tell()
  local id, channel = string.match(head, '^([^:]*):([^:]*)')
  local count = id and redis.pcall('PUBLISH', channel, message_to(id))
  -- We may have no right to: then others have to find out.
  local heard = type(count) ~= 'number' or count > 0 or not is_alone()
  local it = redis.sha1hex(head)
  set('gs', now .. ' ' .. it)
  if heard then del('gu') else set('gu', it) end
  return heard
end

-- Is the time of the stranger at the head over? If not, notes when to ask again.
local function is_over()
  local it = redis.sha1hex(head)
  local since = seen_since(it)
  if get('gu') == it then
    gate.recheck = since + GRACE
    if now < gate.recheck then return false end
    if not tell() then return true end
    since = now
  end
  gate.recheck = since + timeout_of(head)
  return now >= gate.recheck
end

local function pop()
  redis.call('LPOP', list)
  head = redis.call('LINDEX', list, 0)
end

local function forget_stranger()
  if get('gs') then del('gs') end
  if get('gu') then del('gu') end
end

-- Pops what is over, until the head is a stranger in its time, or one of ours, which is then the
-- answer. A head that is new is told.
local function advance(is_new)
  for _ = 1, STEP_MAX do
    local w = head and waiter_in(head)
    if w or not head then
      gate.recheck = nil
      forget_stranger()
      return w
    end
    local place = place_in(head)
    if place then
      -- Left behind by one that gave up its place where no gate is known.
      del('gt' .. place)
    else
      if is_new then tell() end
      if not is_over() then return nil end
    end
    pop()
    is_new = true
  end
  gate.recheck = now
end

-- The order in the list is ours, unless one of ours was popped. Then who is first takes the turn of
-- whoever of ours is at the head, and gives it its own, or one at the end.
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

function wire.blocked(_, w)
  local first = advance(false)
  if not head then
    -- What it stood there with was taken away.
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

-- May one of ours pass that holds already? Then it comes before those who wait.
function wire.is_open()
  local first = advance(false)
  if first then
    redis.call('LPUSH', list, '')
    head = ''
  end
  return first or not head
end

function wire.holds()
  return head and head == get('gh')
end

-- The head that was there, if any, is the one that this turn came with.
function wire.take(owner, deadline, h)
  local place = head and place_in(head)
  if place then del('gt' .. place) end
  local id = string.sub(redis.sha1hex(owner .. digits(now_us) .. (get('gh') or '')), 1, 24)
  local value = entry(id, h.client, deadline - now)
  if head then redis.call('LSET', list, 0, value) else redis.call('RPUSH', list, value) end
  head = value
  set('gh', value)
end

function wire.keep(owner, deadline, h)
  if wire.holds() then wire.take(owner, deadline, h) end
end

function wire.drop()
  local held = wire.holds()
  del('gh')
  if not held then return end
  gave_back = true
  pop()
  advance(true)
end

function wire.stand(owner)
  local w = waiter(place_of(owner))
  -- Nobody is known to live for longer than its waiter lease. Where only strangers are left to look, it
  -- is they who see the dead out, one by one.
  set('gt' .. w.place, math.min(w.lease, client_of(w.client).lease))
  local value = entry_of(w)
  redis.call('RPUSH', list, value)
  head = head or value
end

function wire.leave(_, w)
  if not w then
    -- A native client handed it the lock: where it stood nobody knows any more, until it is the head.
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

-- Whoever came to be the head by this very step is not meant.
function wire.is_strange()
  return head and not gave_back and not place_in(head)
end

function wire.evict()
  pop()
  advance(true)
end

-- Those who only try would never see a stranger out.
function wire.remembers()
  return get('gs')
end
