-- The adapter of a view: shows foreign clients beside ours. As in the adapter of a step, a function of a native
-- part is redefined, and `native` has the old. Each protocol has a file `<protocol>.view.lua` that finds them:
--
--   find_holders()     notes the foreign holders; answers an error if they can't be read
--   find_waiters(max)  how many wait in line, ours included; and whether each of the first `max` is foreign
--                      (only where foreign clients wait in line)

local native = { list_holders = list_holders, list_waiters = list_waiters, list_members = list_members }
local find_holders, find_waiters
local foreign_holders = {}

-- Notes a foreign client that holds for `left` ms, or without an end.
local function note_holder(id, left)
  local since, last = string.match(get('gs') or '', '^(%d+) (.*)$')
  foreign_holders[#foreign_holders + 1] = { since = last == id and since, left = left }
end

-- Does this stand for a holder of ours?
local function is_ours(id)
  for slot = 1, meta.count or 0 do
    local text = slot == 1 and meta.holder1 or get('h' .. slot)
    if redis.sha1hex(sub(text, 59, 90)) == id then return true end
  end
  return false
end
