-- What people see of a lock. Reads only: expiry is for the reader to compute.
-- ARGV: how many waiters to show
-- Answers { now, quarantine, kind, token, era, holders, waiting, waiters, members }, or just the
-- first two if there is no such lock. Holders and waiters come as stored, each followed by its
-- client's record; members by name and state.

local key = KEYS[1]
local now_us = clock()
local now = (now_us - now_us % 1000) / 1000

local function get(field)
  return redis.call('HGET', key, field)
end

local meta = redis.call('HMGET', key, 's', 'k', 't', 'r', 'z', 'e', 'h', 'q', 'm')
meta = gate.meta(meta)
if meta.err then return meta end -- gate.
local quarantine = tonumber(meta[5]) or 0
-- Of a clock that was set back since, as the next step will find.
if quarantine > now + QUARANTINE_MAX then quarantine = now + MAX_LEASE end
if now < UNTIL then quarantine = math.max(quarantine, UNTIL) end
-- A hash without all of these is somebody else's, and no lock.
local is_kind = string.find(meta[2] or '', '^[mrp]$') or string.find(meta[2] or '', '^s%d+$')
if not (tonumber(meta[1]) and is_kind and meta[4]) then return { now, quarantine } end
if meta[4] ~= RUN and not string.find(KNOWN, meta[4], 1, true) then
  quarantine = math.max(quarantine, now + MAX_LEASE)
end

local holders, waiters, members = {}, {}, {}
local count = tonumber(string.match(meta[7] or '0', '^(%d+)'))
for slot = 1, count do
  local text = get('h' .. slot)
  local client, member = string.match(text,
    '^%x+\n(%x+)\n%d+\n[^\n]*\n%d+\n%d+\n%d+\n%d%d[^\n]*\n([^\n]*)\n')
  holders[#holders + 1] = text
  holders[#holders + 1] = get('c' .. client)
  if member ~= '' then
    members[#members + 1] = member
    members[#members + 1] = get('m' .. member)
  end
end

local waiting, place = string.match(meta[8] or '0 - - 0 -', '^(%d+) (%S+)')
place = place ~= '-' and place or nil
for _ = 1, tonumber(ARGV[1]) do
  if not place then break end
  local text = get('w' .. place)
  waiters[#waiters + 1] = text
  waiters[#waiters + 1] = get('c' .. string.match(text, '^%x+\n(%x+)\n'))
  place = get('>q' .. place)
end

local free = tonumber(string.match(meta[9] or '0 - - 0 -', '^%d+ (%S+)'))
while free do
  local member = get('f' .. free)
  members[#members + 1] = member
  members[#members + 1] = 'f'
  free = tonumber(get('>f' .. free))
end

gate.members(members)
gate.others(holders, now)
waiters, waiting = gate.waiters(waiters, waiting, meta[6], now)
return { now, quarantine, meta[2], meta[3] or '0', meta[6] or '0 0', holders, tonumber(waiting),
  waiters, members }
