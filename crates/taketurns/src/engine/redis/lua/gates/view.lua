-- What people see of strangers: whoever holds the wire, and is none of ours. Every line of the view
-- that has `gate` and a dot in it is for wires alone.

local gate, strangers = {}, {}
-- Set by each wire.
local find_strangers

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
  if #strangers > 0 and not meta[1] then meta[1], meta[2], meta[4] = '0', KIND, RUN end
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
