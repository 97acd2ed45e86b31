-- protocol=plain: whoever has set the key holds the lock, until it is deleted or expires.

local lock_key = KEYS[#KEYS]
local value

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
    look_again(seen_since(redis.sha1hex(value)))
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

function wire.is_strange()
  return value ~= false
end

function wire.evict()
  redis.call('DEL', lock_key)
  value = false
end
