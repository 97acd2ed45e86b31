-- protocol=plain and protocol=python-redis-lock: the client that has set the key holds the lock, until the
-- key is deleted or expires. Clients of python-redis-lock (`SIGNALS`) block on a list meanwhile, and each
-- release pushes to it.

lock_key = KEYS[#KEYS]
local signal_key = KEYS[#KEYS - 1]
-- As long as the library lets a signal live.
local SIGNAL_MS = 1000

function foreign.load()
  value = redis.pcall('GET', lock_key)
  if type(value) == 'table' then return unreadable('a string', value) end
end

-- A step that leaves the lock free pushes a signal: after a release, while the lock is left to foreign
-- clients, and during a quarantine. So a signal that a client of ours took and could not use is never lost
-- to them.
function foreign.write()
  if SIGNALS == 1 and not value and holders.count == 0 then push_to(signal_key, SIGNAL_MS) end
end

function foreign.blocks()
  if value then
    courtesy.was_used()
    local since = seen_since(redis.sha1hex(value))
    if SIGNALS == 1 then look_at_its_end(lock_key) else look_again(since) end
    return true
  end
  return courtesy.is_on()
end

function foreign.is_open()
  return not value
end

function foreign.take(h)
  value = public_owner(h.owner)
  redis.call('SET', lock_key, value, 'PXAT', h.deadline)
end

function foreign.drop(owner)
  if not foreign.holds(owner) then return end
  delete()
  courtesy.leave_room()
end

function foreign.stand(w)
  if SIGNALS == 1 then listen_to_more(w.client) end
end

function foreign.is_held()
  return value ~= false
end

function foreign.evict()
  delete()
  return 1
end
