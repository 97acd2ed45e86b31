-- What people see of strangers: whoever holds the wire, and is none of ours. Every line of the view
-- that has `gate` and a dot in it is for wires alone.

local gate, strangers = {}, {}
-- Set by each wire. The first answers why it can't, if so; the second is set by those where strangers wait in line: how many are in it, and of each of
-- the first so many whether it is a stranger.
local find_strangers, find_waiters

-- One that holds for so long, or without an end; of a pool, which member.
local function stranger(id, left, member)
  local since, last = string.match(redis.call('HGET', KEYS[1], 'gs') or '', '^(%d+) (.*)$')
  strangers[#strangers + 1] = { since = last == id and since, left = left, member = member }
end

-- Does this stand for one of ours who holds?
local function is_ours(meta, id)
  for slot = 1, meta.count or 0 do
    local text = slot == 1 and meta.holder1 or redis.call('HGET', KEYS[1], 'h' .. slot)
    local owner = string.match(text, '^%d%d(%x+)')
    if redis.sha1hex(owner) == id then return true end
  end
  return false
end

-- A lock that only strangers use has no state of ours. One that has is shown, whatever else has its name.
function gate.meta(meta)
  local failed = find_strangers(meta)
  if failed then
    find_waiters = nil
    return meta.run and meta or failed
  end
  local waiting = find_waiters and find_waiters(1) or 0
  if #strangers + waiting > 0 and not meta.run then meta.run, meta.kind = RUN, KIND end
  return meta
end

-- A pool's, if the wire has its own.
function gate.members() end

-- Adds them to our holders, as those are stored.
function gate.others(holders, now)
  for _, it in ipairs(strangers) do
    holders[#holders + 1] = '000\n\n0\n0\n' .. (it.member and 'n' .. it.member or 'm') .. '\n' .. LEASE_MAX
      .. '\n' .. now + (it.left or LEASE_MAX) .. '\n' .. (it.since or now) .. '\n'
      .. (it.member or '') .. '\na stranger\nprotocol=' .. PROTOCOL
    holders[#holders + 1] = false
  end
end

-- Puts those who wait between our waiters, as those are stored.
function gate.waiters(waiters, waiting, era, now)
  if not find_waiters then return waiters, waiting end
  local max, all, ours, count = tonumber(ARGV[1]), {}, 1, tonumber(waiting)
  local total, line = find_waiters(max)
  for _, is_stranger in ipairs(line) do
    if is_stranger then
      count = count + 1
      all[#all + 1] = '0\n0\nm\n0\n' .. now .. '\na stranger\nprotocol=' .. PROTOCOL
      all[#all + 1] = now + LEASE_MAX .. ' ' .. LEASE_MAX .. ' 1 ' .. string.match(era or '0', '^%d+')
    elseif waiters[ours] then
      all[#all + 1] = waiters[ours]
      all[#all + 1] = waiters[ours + 1]
      ours = ours + 2
    end
  end
  for i = ours, #waiters do all[#all + 1] = waiters[i] end
  for i = #all, 2 * max + 1, -1 do all[i] = nil end
  -- Of those who are not shown nobody knows whose they are.
  return all, math.max(count, total)
end
