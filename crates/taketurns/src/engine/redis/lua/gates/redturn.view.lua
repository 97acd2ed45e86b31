local list, EAR = KEYS[#KEYS], string.gsub(CHANNEL, ':', '.')

-- Does it stand for one of ours that waits?
local function waits_for_us(value)
  return string.match(value, '^%d+x%x+:([^:]*%.)%x+:%d+$') == EAR
end

local function is_held(head)
  return head and not waits_for_us(head)
end

function find_strangers()
  local head = redis.call('LINDEX', list, 0)
  if not is_held(head) or head == redis.call('HGET', KEYS[1], 'gh') then return end
  local timeout = tonumber(string.match(head, '^[^:]*:[^:]*:(%d+)$'))
  stranger(redis.sha1hex(head), timeout and timeout > 0 and math.min(timeout, LEASE_MAX))
end

-- The list has the order of all.
function find_waiters(max)
  local values, waiters = redis.call('LRANGE', list, 0, max), {}
  local first = is_held(values[1]) and 2 or 1
  for i = first, #values do
    waiters[#waiters + 1] = not waits_for_us(values[i])
  end
  return redis.call('LLEN', list) + 1 - first, waiters
end
