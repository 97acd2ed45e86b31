-- What a view shows with protocol=redturn: the foreign client at the head of the list, which holds, and all
-- that stand behind it.

local list, EAR = KEYS[#KEYS], string.gsub(CHANNEL, ':', '.')

-- The place of ours that this entry stands for, whether it is still taken or not.
local function place_in(value)
  local place, channel = string.match(value, '^(%d+)x%x+:([^:]*%.)%x+:%d+$')
  return channel == EAR and place
end

local function is_held(head)
  return head and not place_in(head)
end

function find_holders()
  local head = redis.pcall('LINDEX', list, 0)
  if type(head) == 'table' then return unreadable('a list', head) end
  if not is_held(head) or head == get('gh') then return end
  local timeout = tonumber(string.match(head, '^[^:]*:[^:]*:(%d+)$'))
  note_holder(redis.sha1hex(head), timeout and timeout > 0 and math.min(timeout, LEASE_MAX))
end

-- The list has the order of all.
function find_waiters(max)
  local values, waiters = redis.call('LRANGE', list, 0, max), {}
  local first = is_held(values[1]) and 2 or 1
  local total = redis.call('LLEN', list) + 1 - first
  for i = first, #values do
    local place = place_in(values[i])
    if place and not get('w' .. place) then
      -- Left behind by a waiter that gave up its place on a native client.
      total = total - 1
    else
      waiters[#waiters + 1] = not place
    end
  end
  return total, waiters
end
