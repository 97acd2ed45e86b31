-- Linked lists: append, insert and unlink in a few fields each. Entries are text, as it is stored.

local function after(list, at)
  if at ~= list.tail then return get('>' .. list.p .. at) or nil end
end

local function before(list, at)
  if at ~= list.head then return get('<' .. list.p .. at) or nil end
end

-- Puts `at` between two neighbours, or at an end if there is none on that side.
local function link(list, front, at, behind)
  local p = list.p
  if front then
    set('>' .. p .. front, at)
    set('<' .. p .. at, front)
  else
    list.head = at
  end
  if behind then
    set('>' .. p .. at, behind)
    set('<' .. p .. behind, at)
  else
    list.tail = at
  end
end

local function append(list, at)
  link(list, list.tail, at, nil)
end

local function unlink(list, at)
  local p, front, behind = list.p, before(list, at), after(list, at)
  if front then
    del('<' .. p .. at)
    if behind then set('>' .. p .. front, behind) else del('>' .. p .. front) end
  else
    list.head = behind
  end
  if behind then
    del('>' .. p .. at)
    if front then set('<' .. p .. behind, front) else del('<' .. p .. behind) end
  else
    list.tail = front
  end
end
