-- A release: gives up the lock, or the place in the queue, whichever the owner has.
-- ARGV: owner, until when a delayed acquire of this owner is refused; and, if tokens were reserved for turns,
-- the last one used

local owner = ARGV[1]

-- Gives back the tokens that were reserved and not used.
local function unreserve(h, last_used)
  local token = tonumber(h.token)
  local last = token + (tokens_of(h.ask) or 1) - 1
  if last_used and last == last_token and token <= last_used and last_used <= last then
    last_token = last_used
  end
end

return step({ 'o' .. owner, 'b' .. owner }, function()
  bury(owner, ARGV[2])
  local h = holder_of(owner)
  if h then
    unreserve(h, tonumber(ARGV[3]))
    if holders.rests_until(h) > now then holders.rest(h) else drop_holder(h) end
    return 'R'
  end
  local place = place_of(owner)
  if not place then return 'H' end
  leave(place, waiter(place))
  return 'L'
end)
