-- Give up the lock, or the place in the queue: whichever the owner has.
-- ARGV: owner, until when an acquire by it that is still under way is refused

local owner = ARGV[1]

local function bury(until_ms)
  if not get('b' .. owner) then
    set('t' .. tombs.next, owner)
    tombs.next = tombs.next + 1
  end
  set('b' .. owner, until_ms)
  if tombs.next - tombs.first > TOMBS_MAX then drop_tomb() end
end

local failed = load('o' .. owner, 'b' .. owner)
if failed then return failed end
catch_up()
settle()
local bury_until = math.min(tonumber(ARGV[2]), now + RETENTION)
if bury_until > now then bury(bury_until) end
local reply = 'H'
local h = holder_of(owner)
local place = tonumber(string.match(get('o' .. owner) or '', '^w(%d+)$'))
if h then
  drop_holder(h)
  reply = 'R'
elseif place then
  leave(place, waiter(place))
  reply = 'L'
end
settle()
return finish(reply)
