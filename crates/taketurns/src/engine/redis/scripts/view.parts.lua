-- The functions of a view, which list what is stored: holders and waiters as stored, each followed by its
-- client's record; members by name and state.

local now = sub(clock, 1, 14) + 0

local function get(field)
  return redis.call('HGET', key, field)
end

local stored = call('HMGET', key, 'e', 'q', 'm', 'x')
local meta = { era = stored[1], queue = stored[2], members = stored[3], work = stored[4] }
-- A hash without a head is no lock of ours.
if head and #head >= HOLDER - 1 then
  meta.token, meta.quarantine = sub(head, 18, 34) + 0, sub(head, 49, 62) + 0
  meta.count, meta.kind, meta.run = sub(head, 125, 128) + 0, sub(head, 135, 135), sub(head, 143, HOLDER - 2)
  if meta.kind == 's' then meta.kind = meta.kind .. sub(head, 136, 142) + 0 end
  meta.holder1 = sub(head, HOLDER)
end

-- Each member's name and state.
local members = {}

-- Also notes the members that they hold.
local function list_holders()
  local holders = {}
  for slot = 1, meta.count or 0 do
    local text = slot == 1 and meta.holder1 or get('h' .. slot)
    local member = string.match(text, '^[^\n]*\n[^\n]*\n[^\n]*\n([^\n]+)\n', 107)
    holders[#holders + 1] = text
    holders[#holders + 1] = get('c' .. sub(text, 91, 106))
    if member then
      members[#members + 1] = member
      members[#members + 1] = get('m' .. member)
    end
  end
  return holders
end

-- How many wait, and the first of them.
local function list_waiters(max)
  local waiters = {}
  local waiting, place = string.match(meta.queue or '0 - - 0 -', '^(%d+) (%S+)')
  place = place ~= '-' and place or nil
  for _ = 1, max do
    if not place then break end
    local text = get('w' .. place)
    waiters[#waiters + 1] = text
    waiters[#waiters + 1] = get('c' .. sub(text, 58, 73))
    place = get('>q' .. place)
  end
  return tonumber(waiting), waiters
end

-- Adds the members that are free.
local function list_members()
  local free = tonumber(string.match(meta.members or '0 - - 0 -', '^%d+ (%S+)'))
  while free do
    local member = get('f' .. free)
    members[#members + 1] = member
    members[#members + 1] = 'f'
    free = tonumber(get('>f' .. free))
  end
  return members
end
