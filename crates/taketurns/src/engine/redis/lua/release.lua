-- Give up the lock, or the place in the queue: whichever the owner has.
-- ARGV: owner, until when an acquire by it that is still under way is refused; and, if tokens were
-- reserved for turns, the last one used

local owner = ARGV[1]

local function bury(until_ms)
  if not get('b' .. owner) then
    set('t' .. tombs.next, owner)
    tombs.next = tombs.next + 1
  end
  set('b' .. owner, until_ms)
  if tombs.next - tombs.first > TOMBS_MAX then drop_tomb() end
end

return step({ 'o' .. owner, 'b' .. owner }, function()
  local bury_until = math.min(tonumber(ARGV[2]), now + RETENTION)
  if bury_until > now then bury(bury_until) end
  local h = holder_of(owner)
  if h then
    unreserve(h, tonumber(ARGV[3]))
    drop_holder(h)
    return 'R'
  end
  local place = place_of(owner)
  if not place then return 'H' end
  local w = waiter(place)
  leave(place, w)
  gate.leave(w)
  return 'L'
end)
