-- The most frequent acquire: of an idle mutex that was a mutex before. What it needs of the head is compared in one
-- piece, since each piece is a string to be made: nothing is in quarantine or buried, nobody holds or waits, and the
-- server is the one of the last step. See calm.lua on the comparison of times.
-- ARGV: see acquire.lua

if sub(head, 49) == FREE and sub(ARGV[1], 57, 58) == 'm\n' and not ARGV[4] then
  local request, lease, waiter_lease = ARGV[1], sub(ARGV[1], 1, 8), ARGV[2]
  if head < clock and sub(head, 18, 34) < clock and clock > CALM_FROM and clock < CALM_UNTIL
    and clock < ARGV[3] and lease >= LEASE_FROM and lease <= LEASE_TO
    and (waiter_lease == '-' or waiter_lease >= LEASE_FROM and waiter_lease <= LEASE_TO) then
    local deadline, expires = now + lease, sub(head, 35, 48)
    local moved = expires + 0 < deadline + RETENTION and math.max(deadline, now + EXPIRY_SLACK) + RETENTION
    if moved then expires = '0' .. moved end
    deadline = '0' .. deadline
    call('HSET', key, 'H', clock .. clock .. expires .. CALM .. deadline .. deadline .. MUTEX .. '00'
      .. clock .. deadline .. clock .. request)
    if moved then call('PEXPIREAT', key, moved) end
    return sub(clock, 2, 14) .. ' 0 G ' .. sub(clock, 2) .. ' ' .. sub(deadline, 2) .. ' '
  end
end

