-- Removes a member from a pool; one that is held leaves at its release.
-- ARGV: member

local member = ARGV[1]

return step({ 'm' .. member }, function()
  local state = get('m' .. member)
  if in_use() and kind ~= 'p' then return kind_mismatch() end
  if not state or state == 'l' then return 'C 0' end
  if take_free(member) then
    del('m' .. member)
    members.count = members.count - 1
  else
    set('m' .. member, 'l')
  end
  return 'C 1'
end)
