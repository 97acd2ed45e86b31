-- May a short cut be taken? Only if there is nothing to catch up with: clock and server are as they were, nothing is
-- in quarantine, no tombstone is over, and no lease has ended. A short cut does what the parts below would do, in
-- the most frequent cases. In all others it sets no answer and writes nothing.
--
-- Texts of digits are compared here. A time in ms equals the first 14 of the 17 digits of `clock` if it is now, and
-- then it is the smaller text. With such a clock times have one zero in front, and tokens too.
local guards, first, letter = sub(head, 49, 81), sub(head, 82, 95), sub(head, 135, 135)
local is_calm = head < clock and clock > CALM_FROM and clock < CALM_UNTIL
  and sub(head, 143, HOLDER - 1) == RUN_LINE and letter ~= 'p' and letter ~= 'o'
  and (guards == CALM or sub(guards, 1, 14) <= clock
    and (sub(guards, 15, 19) == '00000' or sub(guards, 20) > clock))
  and (first > clock or sub(head, 125, 128) == '0000')

-- What a short cut answers; the last token then, and the head from the bounds of leases on, with the first holder;
-- until when that is needed; the fields that it writes and deletes besides; whom it wakes.
local answer, token, rest, needed, more_fields, gone_fields, wake_channel, wake_text
