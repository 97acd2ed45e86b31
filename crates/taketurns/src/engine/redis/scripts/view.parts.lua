-- The functions of a view, which list what is stored: holders and waiters as stored, each followed by its
-- client's record; members by name and state.

local key = KEYS[1]
local now = tonumber(string.sub(clock, 1, -4))

local function get(field)
  return redis.call('HGET', key, field)
end

local stored = redis.call('HMGET', key, 's', 'e', 'q', 'm')
local meta, head, _ = { era = stored[2], queue = stored[3], members = stored[4] }, stored[1] or '', nil
-- A hash without a head is no lock of ours.
if #head >= HEAD_MIN then
  local head_end
  _, meta.token, _, meta.quarantine, meta.count, _, _, _, _, _, meta.kind, meta.run, head_end =
    struct.unpack(HEAD, head)
  meta.holder1 = string.sub(head, head_end)
end

-- Each member's name and state.
local members = {}

-- Also notes the members that they hold.
local function list_holders()
  local holders = {}
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
    waiters[#waiters + 1] = get('c' .. string.match(text, '^%x+\n(%x+)\n'))
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
