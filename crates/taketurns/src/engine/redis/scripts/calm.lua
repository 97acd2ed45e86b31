-- The beginning of a short cut: may it be taken? Only if there is nothing to catch up with: clock and server
-- are as they were, nothing is in quarantine or buried, and no lease has ended. A short cut does what the parts
-- below would do, in the most frequent cases. In all others it sets no answer and writes nothing.

local is_calm = run == RUN and kind ~= 'p' and buried == 0 and quarantine <= now and seen <= now
  and now >= UNTIL and (count == 0 or first > now)

local now_text = string.sub(clock, 1, -4)
-- What a short cut answers, the first holder then, the fields it writes and deletes besides, whom it wakes.
local answer, holder1, more_fields, gone_fields, wake_channel, wake_text
