-- The most frequent release: by the only holder, while nobody waits. It looks neither at the time nor at the marker:
-- it grants nothing, and whatever the server may have forgotten, this owner gives up what it has. So its answer
-- tells no time, and the head keeps the time of the step before.
-- The two bytes are 0 and p: it has answered the hand-over and need not rest, and this is no pool and no once.
-- ARGV: see release.lua

if head and sub(head, 125, 134) == '0001000000' and sub(head, HOLDER + 58, HOLDER + 89) == ARGV[1]
  and ARGV[2] == '0' and not ARGV[3] and string.byte(head, HOLDER) == 48
  and sub(head, HOLDER + 50, HOLDER + 57) <= SLACK_DIGITS and string.byte(head, 135) ~= 112 then
  call('HSET', key, 'H', sub(head, 1, 81) .. IDLE .. sub(head, 135, HOLDER - 1))
  return 'R'
end

