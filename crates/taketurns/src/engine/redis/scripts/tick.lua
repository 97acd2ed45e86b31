-- A tick: only catches up with time, and does the hand-overs that an earlier step left undone.

return step({}, function() return 'D' end)
