-- Add a member to a pool.
-- ARGV: member

local member = ARGV[1]

return step({ 'm' .. member }, function()
  local state = get('m' .. member)
  if in_use() and kind ~= 'p' then return kind_mismatch() end
  if not state and members.count >= MEMBERS_MAX then return 'X pool' end
  if not state and gate.is_full() then return 'X pool' end
  kind = 'p'
  if not state then
    members.count = members.count + 1
    free_again(member)
    gate.add(member)
    return 'C 1'
  end
  if gate.add_again(member) then return 'C 1' end
  -- It was about to leave, or is there as it should be.
  if state ~= 'l' then return 'C 0' end
  set('m' .. member, 'h')
  return 'C 1'
end)
