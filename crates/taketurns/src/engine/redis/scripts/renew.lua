-- A renewal: extends the lease of a holder. A lease that has ended is never recreated.
-- ARGV: "lease owner client", as head.lua says; and, if a majority of nodes decides, "number token": the grant that
-- is meant, and the token that is agreed on

local lease, owner, client = sub(ARGV[1], 1, 8) + 0, sub(ARGV[1], 9, 40), sub(ARGV[1], 41, 56)
local number, agreed = string.match(ARGV[2] or '', '^(%d+) (%d+)$')

return step({ 'o' .. owner, 'c' .. client }, function()
  if not is_lease(lease) then return 'X lease' end
  local h = holder_of(owner)
  if not h or h.resting then return 'H' end
  if number and number ~= h.number then return 'H' end
  if h.revoked then return 'V' end
  if number then
    -- While it holds, no other token is minted: so the last one is its own.
    last_token = math.max(last_token, token_of(agreed))
    h.token = digits(math.max(tonumber(h.token), token_of(agreed)))
  end
  renew(h, client, lease)
  return granted('N', h)
end)
