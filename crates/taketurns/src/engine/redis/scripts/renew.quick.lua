-- The short cut of a renewal: by the only holder, which has answered since it was handed the lock, has no
-- vote and was not revoked. A renewal brings the waiters of a mutex no nearer.

local owner, lease = ARGV[1], tonumber(ARGV[3])
if is_calm and count == 1 and (kind == 'm' or waiting == 0)
  and lease >= LEASE_MIN and lease <= LEASE_MAX and not ARGV[4] then
  local at = head_end + #owner + 4
  if string.sub(head, head_end, at - 1) == '00' .. owner .. '\n\n' then
    local token, ask, its_lease, deadline, rest =
      string.match(head, '^%x+\n(%d+)\n([^\n]*)\n(%d+)\n(%d+)(\n.*)$', at)
    first = math.max(deadline, now + lease)
    last = first
    deadline = string.format('%.0f', first)
    holder1 = '00' .. owner .. '\n\n' .. ARGV[2] .. '\n' .. token .. '\n' .. ask .. '\n'
      .. math.max(its_lease, lease) .. '\n' .. deadline .. rest
    local tokens = tonumber(string.match(ask, '^m(%d+)$'))
    if tokens and tokens > 1 then token = token .. '+' .. tokens - 1 end
    answer = 'N ' .. token .. ' ' .. deadline .. ' '
  end
end
