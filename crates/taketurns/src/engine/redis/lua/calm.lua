-- May a short cut be taken? Then there is nothing to catch up with: the clock and the run are as they
-- were, nothing is in quarantine or buried, and no lease has ended. A short cut does what the parts below
-- would do, in the cases that come most often; it leaves all others to them by giving no answer, before
-- anything is written.

local is_calm = run == RUN and kind ~= 'p' and buried == 0 and quarantine <= now and seen <= now
  and now >= UNTIL and (count == 0 or first > now)

local now_text = string.sub(clock, 1, -4)
-- What a short cut answers; the first holder then; what it writes and deletes besides; whom it wakes.
local answer, holder1, more_fields, gone_fields, wake_channel, wake_text
