-- What a view shows with protocol=fairqueue: the foreign client that holds, and all that wait in line.

local lock_key, queue_key = KEYS[#KEYS - 1], KEYS[#KEYS]

-- Not any other field that a foreign token may happen to name.
local function is_waiter_of_ours(id)
  return #id == 40 and get('g' .. id)
end

function find_holders()
  local value, waiting = redis.pcall('GET', lock_key), redis.pcall('LLEN', queue_key)
  if type(value) == 'table' then return unreadable('a string', value) end
  if type(waiting) == 'table' then return unreadable('a list', waiting) end
  if not value or is_ours(value) or is_waiter_of_ours(value) then return end
  local left = redis.call('PTTL', lock_key)
  note_holder(redis.sha1hex(value), left >= 0 and left)
end

function find_waiters(max)
  local ids, waiters = redis.call('LRANGE', queue_key, 0, max - 1), {}
  for i, id in ipairs(ids) do waiters[i] = not is_waiter_of_ours(id) end
  return redis.call('LLEN', queue_key), waiters
end
