-- A release: gives up the lock, or the place in the queue, whichever the owner has.
-- ARGV: owner, until when a delayed acquire of this owner is refused; and, if tokens were reserved for turns,
-- the last one used

local owner = ARGV[1]

local function bury(until_ms)
  if not get('b' .. owner) then
    set('t' .. tombs.next, owner)
    tombs.next = tombs.next + 1
  end
  set('b' .. owner, until_ms)
  if tombs.next - tombs.first > TOMBS_MAX then drop_tomb() end
end

-- Gives back the tokens that were reserved and not used.
local function unreserve(h, last_used)
  local token = tonumber(h.token)
  local last = token + (tokens_of(h.ask) or 1) - 1
  if last_used and last == last_token and token <= last_used and last_used <= last then
    last_token = last_used
  end
end

return step({ 'o' .. owner, 'b' .. owner }, function()
  local bury_until = math.min(tonumber(ARGV[2]), now + RETENTION)
  if bury_until > now then bury(bury_until) end
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
