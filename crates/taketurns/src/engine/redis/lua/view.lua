-- What people see of a lock. Reads only: expiry is for the reader to compute.
-- ARGV: how many waiters to show
-- Answers { now, quarantine, kind, token, era, holders, waiting, waiters, members }, or just the
-- first two if there is no such lock. Holders and waiters come as stored, each followed by its
-- client's record; members by name and state.

local key = KEYS[1]
local now = tonumber(string.sub(clock, 1, -4))

local function get(field)
  return redis.call('HGET', key, field)
end

local stored = redis.call('HMGET', key, 's', 'e', 'q', 'm')
local meta, head, _ = { era = stored[2], queue = stored[3], members = stored[4] }, stored[1] or '', nil
-- A hash without a head is somebody else's, and no lock.
if #head >= HEAD_MIN then
  local head_end
  _, meta.token, _, meta.quarantine, meta.count, _, _, _, _, _, meta.kind, meta.run, head_end =
    struct.unpack(HEAD, head)
  meta.holder1 = string.sub(head, head_end)
end
meta = gate.meta(meta)
if meta.err then return meta end -- gate.
local quarantine = meta.quarantine or 0
-- Of a clock that was set back since, as the next step will find.
if quarantine > now + QUARANTINE_MAX then quarantine = now + MAX_LEASE end
if now < UNTIL then quarantine = math.max(quarantine, UNTIL) end
if not (meta.run and meta.kind) then return { now, quarantine } end
if meta.run ~= RUN and not string.find(KNOWN, meta.run, 1, true) then
  quarantine = math.max(quarantine, now + MAX_LEASE)
end

local holders, waiters, members = {}, {}, {}
for slot = 1, meta.count or 0 do
  local text = slot == 1 and meta.holder1 or get('h' .. slot)
  local client, member = string.match(text,
    '^%x+\n[^\n]*\n(%x+)\n%d+\n[^\n]*\n%d+\n%d+\n%d+\n([^\n]*)\n')
  holders[#holders + 1] = text
  holders[#holders + 1] = get('c' .. client)
  if member ~= '' then
    members[#members + 1] = member
    members[#members + 1] = get('m' .. member)
  end
end

local waiting, place = string.match(meta.queue or '0 - - 0 -', '^(%d+) (%S+)')
place = place ~= '-' and place or nil
for _ = 1, tonumber(ARGV[1]) do
  if not place then break end
  local text = get('w' .. place)
  waiters[#waiters + 1] = text
  waiters[#waiters + 1] = get('c' .. string.match(text, '^%x+\n(%x+)\n'))
  place = get('>q' .. place)
end

local free = tonumber(string.match(meta.members or '0 - - 0 -', '^%d+ (%S+)'))
while free do
  local member = get('f' .. free)
  members[#members + 1] = member
  members[#members + 1] = 'f'
  free = tonumber(get('>f' .. free))
end

gate.members(members)
gate.others(holders, now)
waiters, waiting = gate.waiters(waiters, waiting, meta.era, now)
return { now, quarantine, meta.kind, string.format('%.0f', meta.token or 0), meta.era or '0 0', holders, tonumber(waiting),
  waiters, members }
