local list, EAR = KEYS[#KEYS], string.gsub(CHANNEL, ':', '.')

-- Which of our places it stands for, be it still taken or not.
local function place_in(value)
  local place, channel = string.match(value, '^(%d+)x%x+:([^:]*%.)%x+:%d+$')
  return channel == EAR and place
end

local function is_held(head)
  return head and not place_in(head)
end

function find_strangers()
  local head = redis.pcall('LINDEX', list, 0)
  if type(head) == 'table' then return unreadable('a list', head) end
  if not is_held(head) or head == redis.call('HGET', KEYS[1], 'gh') then return end
  local timeout = tonumber(string.match(head, '^[^:]*:[^:]*:(%d+)$'))
  stranger(redis.sha1hex(head), timeout and timeout > 0 and math.min(timeout, LEASE_MAX))
end

-- The list has the order of all.
function find_waiters(max)
  local values, waiters = redis.call('LRANGE', list, 0, max), {}
  local first = is_held(values[1]) and 2 or 1
  local total = redis.call('LLEN', list) + 1 - first
  for i = first, #values do
    local place = place_in(values[i])
    if place and not redis.call('HGET', KEYS[1], 'w' .. place) then
      -- Left behind by one that gave up its place where no gate is known.
      total = total - 1
    else
      waiters[#waiters + 1] = not place
    end
  end
  return total, waiters
end
