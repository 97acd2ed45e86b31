-- The members of a pool. The free ones are in a list, the one free for longest at its head; from `offer` on
-- they have yet to be offered to waiters.

local function free_again(member)
  local number = members.next
  members.next = digits(number + 1)
  set('m' .. member, 'f' .. number)
  set('f' .. number, member)
  append(members, number)
  if not members.offer then members.offer = number end
end

-- Takes a member out of the list, if it is free.
local function take_free(member)
  local number = string.match(get('m' .. member) or '', '^f(%d+)$')
  if not number then return false end
  if members.offer == number then members.offer = after(members, number) end
  unlink(members, number)
  del('f' .. number)
  return true
end

local function hold_member(member)
  take_free(member)
  set('m' .. member, 'h')
end

local function give_back(member)
  if get('m' .. member) == 'l' then
    del('m' .. member)
    members.count = members.count - 1
  else
    free_again(member)
  end
end

local function was_offered(number)
  return not members.offer or tonumber(number) < tonumber(members.offer)
end

-- The member that a newcomer may take at once: one of this name, or any.
local function open_member(wanted)
  if wanted then
    local number = string.match(get('m' .. wanted) or '', '^f(%d+)$')
    if number and was_offered(number) then return wanted end
  else
    local number = members.head
    if number and was_offered(number) then return get('f' .. number) end
  end
end
