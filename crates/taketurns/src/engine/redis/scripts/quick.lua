-- The end of a short cut: writes, wakes and answers. Without an answer the parts below do the step.

if answer then
  -- The key's expiry never moves back here: the step before left it no later than an hour and the slack from then, or
  -- an hour from the end of a lease that is longer than the slack. No short cut ends such a lease.
  local expires = sub(head, 35, 48)
  needed = needed + RETENTION
  local is_moved = expires + 0 < needed
  if is_moved then
    needed = math.max(needed, now + RETENTION + EXPIRY_SLACK)
    expires = string.format('%014.0f', needed)
  end
  head = clock .. token .. expires .. guards .. rest
  if more_fields then
    call('HSET', key, 'H', head, unpack(more_fields))
  else
    call('HSET', key, 'H', head)
  end
  if gone_fields then call('HDEL', key, unpack(gone_fields)) end
  if is_moved then call('PEXPIREAT', key, needed) end
  -- An error here must not fail the step.
  if wake_channel then redis.pcall('PUBLISH', wake_channel, wake_text) end
  return sub(clock, 2, 14) .. ' 0 ' .. answer
end
