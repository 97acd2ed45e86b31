-- A gate: the wire of others, which whoever is next in our own queue has to pass as well. Each wire has
-- a file that says how; here is what all of them need. Every line elsewhere that has `gate` and a dot
-- in it is for wires alone, and the native scripts are made without it.
--
--   gp   the protocol of those who hold or wait
--   gs   "since id": the stranger that was last seen holding, and since when
--   gc   courtesy: "until since unused", see below

-- Set by whatever finds the gate closed: when it is worth asking again.
gate.recheck = nil

-- Asked of a wire by what follows.
local wire = {}

-- Whether one of ours gave back the lock, or its place: then somebody else may be the first in line.
local is_alien, gave_up

function gate.load()
  local protocol = get('gp')
  is_alien = protocol and protocol ~= PROTOCOL
  return wire.load()
end

-- Do others of ours use the lock with another wire, so that we would not exclude each other's
-- strangers? Known once the dead are out of the way.
function gate.is_alien()
  is_alien = is_alien and in_use()
  return is_alien
end

function gate.alien()
  return redis.error_reply('TTWIRE the lock is in use with protocol=' .. get('gp'))
end

function gate.cannot_be_told()
  return redis.error_reply('TTSTRANGER its holder can not be told')
end

-- What stands for an owner where others can read it.
local function wire_id(owner)
  return redis.sha1hex(owner)
end

-- Strangers wake nobody of ours. So they are looked at again: soon at first, then less often (at the
-- slowest every 200 ms, or as often as is said), and at no pace that many could fall into.
local function look_again(since, slowest)
  local pause = math.max(8, math.min(slowest or 200, (now - since) / 4))
  local at = math.floor(now + pause / 2 + pause * (now_us % 1000) / 1000)
  gate.recheck = math.min(at, gate.recheck or at)
end

-- Asks again after this many milliseconds, or earlier if something else is due.
local function look_in(ms)
  local at = now + ms
  gate.recheck = math.min(at, gate.recheck or at)
end

-- A stranger holds this key and tells us when it releases. Should that be lost, or its time end, a look
-- finds out.
local LOOK = 1000
local function look_at_its_end(key)
  local left = redis.call('PTTL', key)
  look_in(left >= 0 and left < LOOK and left + 1 or LOOK * 3 / 4 + now_us % (LOOK / 2))
end

-- Pushes something for the client that blocks on this list, unless an earlier push is still unread. It
-- expires, since nobody may be left to read it. The step is done whatever is stored at that key.
local function push_to(list, expires_ms)
  if redis.pcall('LLEN', list) == 0 then
    redis.pcall('RPUSH', list, '1')
    redis.pcall('PEXPIREAT', list, now + expires_ms)
  end
end

-- Makes a client of ours that blocks on lists block again, with one more. See `called.rs`.
local CALL_MS = 10000
local function listen_to_more(client)
  push_to(CHANNEL .. '\1' .. client, CALL_MS)
end

-- Since when this stranger has been seen. Not since a time that a clock set back has yet to come to.
local function seen_since(id)
  local since, last = string.match(get('gs') or '', '^(%d+) (.*)$')
  if last ~= id or tonumber(since) > now then
    since = now
    set('gs', now .. ' ' .. id)
  end
  return tonumber(since)
end

-- Those who wait for us by polling never find a lock free that is handed from one of ours to the next.
-- So now and then it is left free for a while: at each release if strangers were there the last time,
-- and after ever longer stretches of our own (a tenth of the time in the end) if nobody came.
local GAP, UNUSED_MAX = 250, 5

local function courtesy()
  local till, since, unused = string.match(get('gc') or '0 0 3', '^(%d+) (%d+) (%d+)$')
  return tonumber(till), tonumber(since), tonumber(unused)
end

local function set_courtesy(till, since, unused)
  put('gc', till .. ' ' .. since .. ' ' .. unused)
end

-- One of ours gave it back.
local function leave_room()
  local _, since, unused = courtesy()
  if queue.count == 0 then
    set_courtesy(0, 0, unused)
  else
    -- Not since a time that a clock set back has yet to come to.
    if since == 0 or since > now then since = now end
    local patience = unused == 0 and 0 or 100 * 2 ^ unused
    if now - since >= patience then
      set_courtesy(now + GAP, 0, unused)
    else
      set_courtesy(0, since, unused)
    end
  end
end

-- Is it left to strangers now?
local function is_left_to_others()
  local till, since, unused = courtesy()
  if till == 0 or queue.count == 0 then return false end
  -- A clock that was set back makes it no longer.
  if now < till and till <= now + GAP then
    look_again(now)
    return true
  end
  set_courtesy(0, since, math.min(unused + 1, UNUSED_MAX))
  return false
end

local function stranger_came()
  set_courtesy(0, 0, 0)
end

-- Tells the client of whoever is first in line to ask: what it waited for has come to be otherwise.
local function stir(client)
  wakes[#wakes + 1] = { CHANNEL .. client, 'stirred ' .. key }
end

-- The first in line of those who live. The dead of a pool are there until something is offered to them.
local function first_alive()
  local place = queue.head
  for _ = 1, STEP_MAX do
    local w = place and waiter(place)
    if not w or is_live(w.client) then return w end
    place = after(queue, place)
  end
end

-- Is there something of strangers to be remembered, though none of ours is there?
function gate.remembers()
  return wire.remembers and wire.remembers()
end

-- Writes what a wire has put off until the step is done.
function gate.write()
  if wire.write then wire.write() end
end

function gate.finish()
  local first = gave_up and gate.recheck and first_alive()
  if first then stir(first.client) end
end
