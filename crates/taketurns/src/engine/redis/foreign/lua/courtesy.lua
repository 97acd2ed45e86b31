-- Courtesy: a foreign client that polls never finds a lock free that our clients hand to each other. So the lock
-- is left free for a while now and then: at each release if a foreign client came the last time, and after ever
-- longer stretches of our own (a tenth of the time in the end) if none did.
--
--   gc   "until since unused": until when the lock is left free, since when our clients have had it, and how
--        often no foreign client came

local GAP, UNUSED_MAX = 250, 5
local courtesy = {}

function courtesy.read()
  local till, since, unused = string.match(get('gc') or '0 0 3', '^(%d+) (%d+) (%d+)$')
  return tonumber(till), tonumber(since), tonumber(unused)
end

function courtesy.write(till, since, unused)
  put('gc', till .. ' ' .. since .. ' ' .. unused)
end

-- A client of ours has released: leaves the lock free, if that is due.
function courtesy.leave_room()
  local _, since, unused = courtesy.read()
  if queue.count == 0 then
    courtesy.write(0, 0, unused)
  else
    -- A time in the future is of a clock that was set back since.
    if since == 0 or since > now then since = now end
    local patience = unused == 0 and 0 or 100 * 2 ^ unused
    if now - since >= patience then
      courtesy.write(now + GAP, 0, unused)
    else
      courtesy.write(0, since, unused)
    end
  end
end

-- Is the lock left to foreign clients now?
function courtesy.is_on()
  local till, since, unused = courtesy.read()
  if till == 0 or queue.count == 0 then return false end
  -- A clock that was set back makes it no longer.
  if now < till and till <= now + GAP then
    look_again(now)
    return true
  end
  courtesy.write(0, since, math.min(unused + 1, UNUSED_MAX))
  return false
end

-- A foreign client came.
function courtesy.was_used()
  courtesy.write(0, 0, 0)
end
