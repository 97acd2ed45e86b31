-- Nothing but what time has brought: expiry, and hand-over that a step before left undone.

local failed = load()
if failed then return failed end
catch_up()
settle()
return finish('D')
