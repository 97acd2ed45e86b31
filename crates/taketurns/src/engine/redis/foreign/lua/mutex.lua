-- The adapter of a mutex: one client of ours at a time holds the foreign lock as well. It asks more of a
-- protocol; `h` is a holder and `w` a waiter, which has no place yet if it has just come:
--
--   holds(owner)  does this owner hold the foreign lock?
--   blocks(w)     is a foreign client in the way of this waiter?
--   is_open()     may a client of ours take the foreign lock that holds ours already?
--   take(h)       takes the foreign lock
--   keep(h)       renews it
--   drop(owner)   releases it
--   stand(w)      waits in line there (optional)
--   leave(w)      leaves that line, without a place if a native client handed it the lock (optional)
--
-- A native client has no adapter: what it holds or hands over is not locked for foreign clients. Fields:
--
--   g         the owner of ours that holds the foreign lock
--   gw<owner> the protocol of the client with which this owner waits
--   gs        "since id": the foreign client that was last seen holding, and since when

-- The key that foreign clients set to hold the lock, and its value in this step. A protocol without such a key
-- replaces the functions below that use it.
local lock_key, value

-- What stands for an owner where others can read it.
local function public_owner(owner)
  return redis.sha1hex(owner)
end

function foreign.holds(owner)
  return value == public_owner(owner)
end

function foreign.keep(h)
  redis.call('PEXPIREAT', lock_key, h.deadline)
end

local function delete()
  redis.call('DEL', lock_key)
  value = false
end

-- A foreign client holds this key and tells us when it releases. Should the message be lost, or the key
-- expire, a look finds out.
local LOOK = 1000
local function look_at_its_end(key)
  local left = redis.call('PTTL', key)
  look_in(left >= 0 and left < LOOK and left + 1 or LOOK * 3 / 4 + now_us % (LOOK / 2))
end

-- Pushes to a list on which a client blocks, unless an earlier push is still unread. The list expires, since
-- there may be no client left to read it. The step goes on whatever is stored at that key.
local function push_to(list, expires_ms)
  if redis.pcall('LLEN', list) == 0 then
    redis.pcall('RPUSH', list, '1')
    redis.pcall('PEXPIREAT', list, now + expires_ms)
  end
end

-- Makes a client of ours that blocks on lists block again, with one more. See `foreign/lists.rs`.
local CALL_MS = 10000
local function listen_to_more(client)
  push_to(CHANNEL .. '\1' .. client, CALL_MS)
end

-- Since when this foreign client has been seen. A time in the future is of a clock that was set back since.
local function seen_since(id)
  local since, last = string.match(get('gs') or '', '^(%d+) (.*)$')
  if last ~= id or tonumber(since) > now then
    since = now
    set('gs', now .. ' ' .. id)
  end
  return tonumber(since)
end

local function uses_protocol(owner)
  return get('gw' .. owner) == PROTOCOL
end

local function take(h)
  if uses_protocol(h.owner) then del('gw' .. h.owner) end
  set('gp', PROTOCOL)
  set('g', h.owner)
  foreign.take(h)
end

local function release(owner)
  del('g')
  gave_up = true
  foreign.drop(owner)
end

-- A newcomer is always the client that asks, so it uses the protocol.
function fits(w)
  if is_other_protocol or not native.fits(w) then return false end
  return w.place and not uses_protocol(w.owner) or not foreign.blocks(w)
end

function grant(...)
  local h = native.grant(...)
  if not h.handed or uses_protocol(h.owner) then take(h) end
  return h
end

function renew(h, client, lease)
  native.renew(h, client, lease)
  if get('g') == h.owner then
    foreign.keep(h)
  elseif uses_protocol(h.owner) and foreign.is_open() then
    -- A native client handed it over. From now on foreign clients are kept out.
    take(h)
  end
end

function drop_holder(h)
  if get('g') == h.owner and not is_other_protocol then
    release(h.owner)
  elseif uses_protocol(h.owner) and not is_other_protocol then
    -- A native client handed it over.
    del('gw' .. h.owner)
    if foreign.leave then foreign.leave(h) end
  end
  native.drop_holder(h)
end

function stand(front, place, behind, w)
  native.stand(front, place, behind, w)
  set('gp', PROTOCOL)
  set('gw' .. w.owner, PROTOCOL)
  if foreign.stand then foreign.stand(waiter(place)) end
  return place
end

function leave(place, w)
  native.leave(place, w)
  gave_up = true
  if not uses_protocol(w.owner) then return end
  del('gw' .. w.owner)
  if foreign.leave then foreign.leave(w) end
end

-- Does the owner of ours that took the foreign lock hold both still?
function catch_up()
  native.catch_up()
  local owner = get('g')
  if is_other_protocol or not owner then return end
  local h = holder_of(owner)
  if not h then
    -- A native client has taken it back.
    release(owner)
  elseif not foreign.holds(owner) then
    wake_revoked(h)
    drop_holder(h)
  end
end
