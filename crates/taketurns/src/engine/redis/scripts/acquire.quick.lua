-- The short cut of an acquire: a grant if the lock is idle, a place if it is a mutex that is held. Not with
-- a ballot, by which a majority of nodes decides.

local owner, client, ask = ARGV[1], ARGV[2], ARGV[3]
local lease, waiter_lease = tonumber(ARGV[4]), tonumber(ARGV[5])
local is_sound = is_calm and now < tonumber(ARGV[6]) and not ARGV[8]
  and lease >= LEASE_MIN and lease <= LEASE_MAX
  and (not waiter_lease or waiter_lease >= LEASE_MIN and waiter_lease <= LEASE_MAX)

if is_sound and count == 0 and waiting == 0 then
  local as, weighs = ask, 1
  if ask == 'w' then
    as, weighs = 'r', HOLDERS_MAX
  elseif ask ~= 'm' and ask ~= 'r' then
    local take, of = string.match(ask, '^s(%d+)/(%d+)$')
    weighs = tonumber(take)
    as = weighs and weighs >= 1 and weighs <= tonumber(of) and tonumber(of) <= PERMITS_MAX and 's' .. of
  end
  -- The clock is the token, unless it is behind the last one, or has gone mad.
  if as and now_us > last_token and now_us <= TOKEN_CLOCK_MAX then
    kind, last_token, count, weight = as, now_us, 1, weighs
    first = now + lease
    last = first
    local deadline = string.format('%.0f', first)
    holder1 = '00' .. owner .. '\n\n' .. client .. '\n' .. clock .. '\n' .. ask .. '\n' .. ARGV[4] .. '\n'
      .. deadline .. '\n' .. now_text .. '\n\n' .. ARGV[7]
    answer = 'G ' .. clock .. ' ' .. deadline .. ' '
  end
elseif is_sound and waiter_lease and count == 1 and kind == 'm' and ask == 'm' and waiting < QUEUE_MAX then
  holder1 = string.sub(head, head_end)
  local found = redis.call('HMGET', key, 'q', 'e', 'o' .. owner, 'c' .. client)
  local front, tail, place, sweep =
    string.match(found[1] or '0 - - 0 -', '^%d+ (%S+) (%S+) (%d+) (%S+)$')
  local era = string.match(found[2] or '0', '^%d+')
  local deadline, longest, places, its_era, handed =
    string.match(found[4] or '0 0 0 ' .. era, '^(%d+) (%d+) (%d+) (%d+)(.*)$')
  -- Another owner holds it, without a vote to inquire about, and this one does not wait yet.
  local is_fine = string.sub(holder1, 3, 2 + #owner) ~= owner and string.find(holder1, '^%x+\n\n')
    and not found[3] and its_era == era and #place < 15
  -- The places that are swept now are of clients that are alive.
  for _ = 1, SWEEP do
    local at = sweep ~= '-' and sweep or front
    if at == '-' or not is_fine then break end
    local looked = redis.call('HMGET', key, 'w' .. at, '>q' .. at)
    local other = string.match(looked[1], '^%x+\n(%x+)\n')
    local known = other == client and found[4] or redis.call('HGET', key, 'c' .. other)
    local lives_until, lives_in = string.match(known, '^(%d+) %d+ %d+ (%d+)')
    is_fine = tonumber(lives_until) > now and lives_in == era
    sweep = looked[2] or '-'
  end
  if is_fine then
    waiting = waiting + 1
    if front == '-' then front = place end
    more_fields = {
      'q', waiting .. ' ' .. front .. ' ' .. place .. ' ' .. string.format('%.0f', place + 1) .. ' '
        .. sweep,
      'w' .. place, owner .. '\n' .. client .. '\nm\n' .. ARGV[4] .. '\n' .. now_text .. '\n'
        .. ARGV[7],
      'o' .. owner, 'w' .. place,
      'c' .. client, math.max(deadline, now + waiter_lease) .. ' ' .. math.max(longest, waiter_lease)
        .. ' ' .. places + 1 .. ' ' .. era .. handed,
    }
    if tail ~= '-' then
      more_fields[9], more_fields[10] = '>q' .. tail, place
      more_fields[11], more_fields[12] = '<q' .. place, tail
    end
    answer = 'Q ' .. place .. ' ' .. string.match(front, '^%d+') .. ' ' .. first .. ' -'
  end
end
