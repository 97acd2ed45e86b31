-- Add a member to a pool.
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
elseif members.count >= MEMBERS_MAX and not state then
  reply = 'X pool'
else
  kind = 'p'
  reply = 'C 0'
  if not state then
    members.count = members.count + 1
    free_again(member)
    reply = 'C 1'
  elseif state == 'l' then
    set('m' .. member, 'h')
    reply = 'C 1'
  end
end
settle()
return finish(reply)
