-- Nothing but what time has brought: expiry, and hand-over that a step before left undone.

return step({}, function() return 'D' end)
