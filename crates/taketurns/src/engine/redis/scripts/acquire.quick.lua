-- The short cut of an acquire: a grant if the lock is idle, a place if it is a mutex that is held. A ballot, by which
-- a majority of nodes decides, may be granted, but gets no place here.

local request, waiter_lease, ballot = ARGV[1], ARGV[2], ARGV[4]
local lease, is_mutex = sub(request, 1, 8), sub(request, 57, 58) == 'm\n'
local is_sound = is_calm and clock < ARGV[3] and lease >= LEASE_FROM and lease <= LEASE_TO
  and (waiter_lease == '-' or waiter_lease >= LEASE_FROM and waiter_lease <= LEASE_TO)
  and (not ballot or is_mutex)

if is_sound and sub(head, 82, 134) == IDLE then
  local ends, vote = MUTEX, ''
  if not is_mutex then
    local ask, as, weighs = string.match(request, '^[^\n]*', 57), nil, 1
    if ask == 'w' then
      as, weighs = 'r0000000', HOLDERS_MAX
    elseif ask == 'r' then
      as = 'r0000000'
    else
      local take, of = string.match(ask, '^s(%d+)/(%d+)$')
      weighs = tonumber(take)
      as = weighs and weighs >= 1 and weighs <= tonumber(of) and tonumber(of) <= PERMITS_MAX
        and string.format('s%07d', of)
    end
    ends = as and string.format('00000000%07d0001000000', weighs) .. as .. RUN_LINE
  end
  token = clock
  if ballot then
    -- The number is more than the last, and at least the hint, as far as that is within reach.
    local hint, ticket = string.match(ballot, '^(%d+) (%S+) ')
    local last, floor = sub(head, 18, 34) + 0, math.min(hint, now_us + HINT_AHEAD)
    if last == 0 then floor = math.max(floor, now_us) end
    token = string.format('%017.0f', math.max(last + 1, floor))
    local number = string.format('%.0f', token)
    ticket = ticket == '-' and number or string.format('%.0f', math.min(ticket, AGREED_MAX))
    vote = '\n\n' .. number .. ' ' .. ticket
    answer = 'G ' .. number .. '/' .. number .. '/' .. ticket .. ' '
  elseif ends and sub(head, 18, 34) < clock then
    -- The clock is the token, unless it is behind the last one.
    answer = 'G ' .. sub(clock, 2) .. ' '
  end
  -- This owner may be buried.
  if guards ~= CALM and answer and call('HGET', key, 'b' .. sub(request, 9, 40)) then
    answer = nil
  end
  if answer then
    needed = now + lease
    local deadline = string.format('%014.0f', needed)
    rest = deadline .. deadline .. ends .. '00' .. token .. deadline .. clock .. request .. vote
    answer = answer .. sub(deadline, 2) .. ' '
  end
elseif is_sound and is_mutex and not ballot and waiter_lease ~= '-' and sub(head, 125, 128) == '0001'
  and sub(head, 135, 135) == 'm' then
  local holder1, owner, client = sub(head, HOLDER), sub(request, 9, 40), sub(request, 41, 56)
  local waiting, patience = sub(head, 129, 134) + 1, sub(head, 110, 117)
  local found = call('HMGET', key, 'q', 'e', 'o' .. owner, 'c' .. client, 'b' .. owner)
  local front, tail, place, sweep =
    string.match(found[1] or '0 - - 0 -', '^%d+ (%S+) (%S+) (%d+) (%S+)$')
  local era = string.match(found[2] or '0', '^%d+')
  local deadline, longest, places, its_era, handed =
    string.match(found[4] or '0 0 0 ' .. era, '^(%d+) (%d+) (%d+) (%d+)(.*)$')
  -- Another owner holds it, without a vote to inquire about, and this one does not wait yet. The first waiter for a
  -- lock that is kept is left to the parts below: the holder is told.
  local is_fine = sub(holder1, 59, 90) ~= owner and not string.find(holder1, '^[^\n]*\n[^\n]*\n[^\n]*\n')
    and not found[3] and not found[5] and its_era == era and #place < 15 and waiting <= QUEUE_MAX
    and (waiting > 1 or sub(holder1, 107, 107) ~= 'k')
  -- The places that are swept now are of clients that are alive.
  for _ = 1, SWEEP do
    local at = sweep ~= '-' and sweep or front
    if at == '-' or not is_fine then break end
    local looked = call('HMGET', key, 'w' .. at, '>q' .. at)
    local other = sub(looked[1], 58, 73)
    local known = other == client and found[4] or call('HGET', key, 'c' .. other)
    local lives_until, lives_in = string.match(known, '^(%d+) %d+ %d+ (%d+)')
    is_fine = tonumber(lives_until) > now and lives_in == era
    sweep = looked[2] or '-'
  end
  if is_fine then
    if front == '-' then front = place end
    longest = math.max(longest, waiter_lease)
    more_fields = {
      'q', waiting .. ' ' .. front .. ' ' .. place .. ' ' .. string.format('%.0f', place + 1) .. ' '
        .. sweep,
      'w' .. place, clock .. request,
      'o' .. owner, 'w' .. place,
      'c' .. client, math.max(deadline, now + waiter_lease) .. ' ' .. longest .. ' ' .. places + 1
        .. ' ' .. era .. handed,
    }
    if tail ~= '-' then
      more_fields[9], more_fields[10] = '>q' .. tail, place
      more_fields[11], more_fields[12] = '<q' .. place, tail
    end
    patience = math.max(patience, longest)
    token, needed = sub(head, 18, 34), math.max(sub(head, 96, 109), now + patience)
    rest = sub(head, 82, 109) .. string.format('%08d', patience) .. sub(head, 118, 128)
      .. string.format('%06d', waiting) .. sub(head, 135, HOLDER - 1) .. holder1
    answer = 'Q ' .. place .. ' ' .. string.match(front, '^%d+') .. ' ' .. sub(first, 2) .. ' -'
  end
end
