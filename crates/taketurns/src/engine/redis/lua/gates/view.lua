-- What people see of strangers: whoever holds the wire, and is none of ours. Every line of the view
-- that has `gate` and a dot in it is for wires alone.

local gate, strangers = {}, {}
-- Set by each wire.
local find_strangers
-- Set by a wire with a queue that ours stand in too: the first so many ids there, and how many there are.
local find_line

-- One that holds for so long, or without an end; of a pool, which member.
local function stranger(id, left, member)
  local since, last = string.match(redis.call('HGET', KEYS[1], 'gs') or '', '^(%d+) (.*)$')
  strangers[#strangers + 1] = { since = last == id and since, left = left, member = member }
end

-- Does this stand for one of ours who holds?
local function is_ours(meta, id)
  for slot = 1, tonumber(string.match(meta[7] or '0', '^(%d+)')) do
    local owner = string.match(redis.call('HGET', KEYS[1], 'h' .. slot), '^%x+')
    if redis.sha1hex(owner) == id then return true end
  end
  return false
end

-- A lock that only strangers use has no state of ours.
function gate.meta(meta)
  find_strangers(meta)
  local waiting = find_line and select(2, find_line(1)) or 0
  if #strangers + waiting > 0 and not meta[1] then meta[1], meta[2], meta[4] = '0', KIND, RUN end
  return meta
end

-- Adds them to our holders, as those are stored.
function gate.others(holders, now)
  for _, it in ipairs(strangers) do
    holders[#holders + 1] = '0\n0\n0\n' .. (it.member and 'n' .. it.member or 'm') .. '\n' .. LEASE_MAX
      .. '\n' .. now + (it.left or LEASE_MAX) .. '\n' .. (it.since or now) .. '\n00\n'
      .. (it.member or '') .. '\na stranger\nprotocol=' .. PROTOCOL
    holders[#holders + 1] = false
  end
end

-- Adds them to our waiters, in the order of the wire's queue. One of ours that is not there has been
-- promoted by a stranger, or is a native client's: it is where it is among ours.
function gate.waiting(waiters, count, now)
  if not find_line then return count end
  local max = tonumber(ARGV[1])
  local line, total = find_line(max)
  local at, all, last = {}, {}, 0
  for i, id in ipairs(line) do at[id] = i end
  for i = 1, #waiters, 2 do
    local id = redis.sha1hex(string.match(waiters[i], '^%x+'))
    if at[id] then
      last, line[at[id]] = at[id], false
    elseif #line < max then
      total = total + 1
    else
      last = max + 1
    end
    all[#all + 1] = { at = last, number = i, waiters[i], waiters[i + 1] }
  end
  local era = string.match(redis.call('HGET', KEYS[1], 'e') or '0', '^%d+')
  for i = 1, #line do
    if line[i] then
      all[#all + 1] = { at = i, number = 0, '0\n0\nm\n' .. LEASE_MAX .. '\n' .. now
        .. '\na stranger\nprotocol=' .. PROTOCOL, now + LEASE_MAX .. ' ' .. LEASE_MAX .. ' 1 ' .. era }
    end
  end
  table.sort(all, function(a, b)
    if a.at ~= b.at then return a.at < b.at end
    return a.number < b.number
  end)
  for i = 1, math.min(max, #all) do
    waiters[2 * i - 1], waiters[2 * i] = all[i][1], all[i][2]
  end
  return total
end
