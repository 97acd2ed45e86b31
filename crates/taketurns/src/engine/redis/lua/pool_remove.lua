-- Remove a member from a pool; one that is held goes at its release.
-- ARGV: member

local member = ARGV[1]

local failed = load('m' .. member)
if failed then return failed end
catch_up()
settle()
local reply
local state = get('m' .. member)
if in_use() and kind ~= 'p' then
  reply = kind_mismatch()
elseif not state or state == 'l' then
  reply = 'C 0'
else
  if take_free(member) then
    del('m' .. member)
    members.count = members.count - 1
  else
    set('m' .. member, 'l')
  end
  reply = 'C 1'
end
settle()
return finish(reply)
