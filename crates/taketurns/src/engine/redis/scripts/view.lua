-- A view: what people see of a lock. Reads only; the reader computes which leases have ended.
-- ARGV: how many waiters to show
-- Answers { now, quarantine, kind, token, era, holders, waiting, waiters, members, work }, or just the first two
-- if there is no such lock.

local quarantine = meta.quarantine or 0
-- No quarantine is that long: the clock was set back since.
if quarantine > now + QUARANTINE_MAX then quarantine = now + MAX_LEASE end
if now < UNTIL then quarantine = math.max(quarantine, UNTIL) end
if not (meta.run and meta.kind) then return { now, quarantine } end
if meta.run ~= RUN and not string.find(KNOWN, meta.run, 1, true) then
  quarantine = math.max(quarantine, now + MAX_LEASE)
end

local holders = list_holders()
local waiting, waiters = list_waiters(tonumber(ARGV[1]))
return { now, quarantine, meta.kind, string.format('%.0f', meta.token or 0), meta.era or '0 0', holders,
  waiting, waiters, list_members(), meta.work or '' }
