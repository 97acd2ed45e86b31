-- A finish: ends an attempt at the work of a once.
-- ARGV: owner; until when a delayed acquire of this owner is refused; its token; "D" and the result if the work is
-- done, or "F" if it failed

local owner, token = ARGV[1], ARGV[3]
local is_done, result = sub(ARGV[4], 1, 1) == 'D', sub(ARGV[4], 2)

return step({ 'o' .. owner, 'b' .. owner }, function()
  bury(owner, ARGV[2])
  local h = holder_of(owner)
  if not h or h.token ~= token then
    -- The first reply may have been lost.
    return is_done and work and work.token == token and 'R' or 'H'
  end
  if not once.terms(h.ask) then return kind_mismatch() end
  -- Its worker knows of the grant, whether it has renewed it or not.
  if h.handed then
    answered(h.client, owner)
    h.handed = false
  end
  drop_holder(h, is_done)
  if is_done then once.note_done(h, result) end
  return 'R'
end)
