-- The short cut of a renewal: by the only holder, which has answered since it was handed the lock, has no
-- vote, was not revoked and does not keep the lock. A renewal brings the waiters of a mutex no nearer.

local asker, lease = ARGV[1], sub(ARGV[1], 1, 8)
if is_calm and sub(head, 125, 128) == '0001' and sub(head, HOLDER + 58, HOLDER + 89) == sub(asker, 9, 40)
  and sub(head, HOLDER, HOLDER + 1) == '00' and not ARGV[2] and sub(head, HOLDER + 106, HOLDER + 106) ~= 'k'
  and (sub(head, 129, 134) == '000000' or sub(head, 135, 135) == 'm')
  and lease >= LEASE_FROM and lease <= LEASE_TO
  and not string.find(head, '^[^\n]*\n[^\n]*\n[^\n]*\n', HOLDER) then
  local its_lease, its_deadline = sub(head, HOLDER + 50, HOLDER + 57), sub(head, HOLDER + 19, HOLDER + 32)
  local deadline = string.format('%014.0f', now + lease)
  -- Longer, never shorter: a renewal that was delayed must not undo a later one.
  if its_lease > lease then asker = its_lease .. sub(asker, 9) end
  if its_deadline > deadline then deadline = its_deadline end
  token, needed = sub(head, 18, 34), math.max(deadline, now + sub(head, 110, 117))
  rest = deadline .. deadline .. sub(head, 110, HOLDER + 18) .. deadline
    .. sub(head, HOLDER + 33, HOLDER + 49) .. asker .. sub(head, HOLDER + 106)
  local its_token = string.format('%.0f', sub(head, HOLDER + 2, HOLDER + 18))
  local tokens = tonumber(string.match(head, '^m(%d+)\n', HOLDER + 106))
  if tokens and tokens > 1 then its_token = its_token .. '+' .. tokens - 1 end
  answer = 'N ' .. its_token .. ' ' .. sub(deadline, 2) .. ' '
end
