-- Hold the lock, or wait for it. The same answer however often it is sent.
-- ARGV: owner, client, what is asked for, lease, waiter lease or -, not after, label

local owner, client, ask = ARGV[1], ARGV[2], ARGV[3]
local lease, waiter_lease, not_after = tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])

local function kind_of_ask()
  local letter = string.sub(ask, 1, 1)
  if letter == 'r' or letter == 'w' then return 'r' end
  if letter == 'a' or letter == 'n' then return 'p' end
  if letter == 's' then return 's' .. string.match(ask, '/(%d+)$') end
  return 'm'
end

local function is_possible()
  local take, of = string.match(ask, '^s(%d+)/(%d+)$')
  if not take then return true end
  take, of = tonumber(take), tonumber(of)
  return take >= 1 and take <= of and of <= PERMITS_MAX
end

local function queued(place)
  return 'Q ' .. place .. ' ' .. front() .. ' ' .. recheck() .. ' ' .. quarantined()
end

local function newcomer()
  if now >= not_after then return 'X late' end
  if (tonumber(get('b' .. owner)) or 0) > now then return 'X cancelled' end
  if not is_lease(lease) or (waiter_lease and not is_lease(waiter_lease)) then return 'X lease' end
  if not is_possible() then return 'X permits' end
  if in_use() and kind ~= kind_of_ask() then return kind_mismatch() end
  if not in_use() then kind = kind_of_ask() end
  local w = { owner = owner, client = client, ask = ask, lease = lease, since = now,
    label = ARGV[7] }
  if now >= quarantine then
    if kind == 'p' then
      local member = open_member(string.match(ask, '^n(.*)$'))
      if member then return granted('G', grant(w, member, lease, false)) end
    elseif queue.count == 0 and fits(ask) then
      return granted('G', grant(w, nil, lease, false))
    end
  end
  if not waiter_lease then
    return now < quarantine and 'X quarantined ' .. quarantine or 'B'
  end
  if now >= quarantine then sweep() end
  if queue.count >= QUEUE_MAX then return 'X full' end
  -- Free members were passed by, though nobody stands before the newcomer.
  if now < quarantine then members.offer = members.head end
  return queued(push(w, waiter_lease))
end

return step({ 'o' .. owner, 'b' .. owner, 'c' .. client }, function()
  local h = holder_of(owner)
  if h then return granted('G', h) end
  local place = string.match(get('o' .. owner) or '', '^w(%d+)$')
  if not place then return newcomer() end
  if waiter_lease then
    if not is_lease(waiter_lease) then return 'X lease' end
    keep_alive(client, waiter_lease)
  end
  return queued(place)
end)
