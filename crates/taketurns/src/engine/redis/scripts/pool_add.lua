-- Adds a member to a pool.
-- ARGV: member

local member = ARGV[1]

return step({ 'm' .. member }, function()
  local state = get('m' .. member)
  if in_use() and kind ~= 'p' then return kind_mismatch() end
  if not state and members.count >= MEMBERS_MAX then return 'X pool' end
  kind = 'p'
  if not state then
    members.count = members.count + 1
    free_again(member)
    return 'C 1'
  end
  -- A member that was to leave stays.
  if state ~= 'l' then return 'C 0' end
  set('m' .. member, 'h')
  return 'C 1'
end)
