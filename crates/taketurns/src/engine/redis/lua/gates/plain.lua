-- protocol=plain and protocol=python-redis-lock: the client that has set the key holds the lock, until the
-- key is deleted or expires. Clients of python-redis-lock (`SIGNALS`) block on a list meanwhile, and each
-- release pushes to it.

local lock_key, signal_key = KEYS[#KEYS], KEYS[#KEYS - 1]
-- As long as the library lets a signal live.
local SIGNAL_MS = 1000
local value

-- A step that leaves the lock free pushes a signal: after a release, while the lock is left to foreign clients,
-- and during a quarantine. So a signal that one of our clients took and could not use is never lost to them.
function wire.write()
  if SIGNALS == 1 and not value and holders.count == 0 then push_to(signal_key, SIGNAL_MS) end
end

function wire.load()
  value = redis.pcall('GET', lock_key)
  if type(value) == 'table' then return unreadable('a string', value) end
end

function wire.holds(owner)
  return value == wire_id(owner)
end

function wire.blocked()
  if value then
    stranger_came()
    local since = seen_since(redis.sha1hex(value))
    if SIGNALS == 1 then look_at_its_end(lock_key) else look_again(since) end
    return true
  end
  return is_left_to_others()
end

-- May one of ours pass that holds already?
function wire.is_open()
  return not value
end

function wire.take(owner, deadline)
  value = wire_id(owner)
  redis.call('SET', lock_key, value, 'PXAT', deadline)
end

function wire.keep(_, deadline)
  redis.call('PEXPIREAT', lock_key, deadline)
end

function wire.drop(owner)
  if not wire.holds(owner) then return end
  redis.call('DEL', lock_key)
  value = false
  leave_room()
end

function wire.stand(_, _, client)
  if SIGNALS == 1 then listen_to_more(client) end
end

function wire.is_strange()
  return value ~= false
end

function wire.evict()
  redis.call('DEL', lock_key)
  value = false
end
