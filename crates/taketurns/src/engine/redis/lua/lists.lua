-- Lists of numbers that only grow: append at the end, unlink anywhere, each in a few fields.

local function after(list, at)
  if at ~= list.tail then return tonumber(get('>' .. list.p .. at)) end
end

local function append(list, at)
  if list.tail then
    set('>' .. list.p .. list.tail, at)
    set('<' .. list.p .. at, list.tail)
  else
    list.head = at
  end
  list.tail = at
end

local function unlink(list, at)
  local p, before, behind = list.p, nil, after(list, at)
  if at ~= list.head then before = tonumber(get('<' .. p .. at)) end
  if before then
    del('<' .. p .. at)
    if behind then set('>' .. p .. before, behind) else del('>' .. p .. before) end
  else
    list.head = behind
  end
  if behind then
    del('>' .. p .. at)
    if before then set('<' .. p .. behind, before) else del('<' .. p .. behind) end
  else
    list.tail = before
  end
end
