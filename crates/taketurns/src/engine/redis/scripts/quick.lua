-- The end of a short cut: writes, wakes and answers. Without an answer the parts below do the step.

if answer then
  local needed, kept = waiting > 0 and now + LEASE_MAX or now, expires
  needed = (needed > last and needed or last) + RETENTION
  if expires < needed or expires > needed + EXPIRY_SLACK then expires = needed + EXPIRY_SLACK end
  head = struct.pack(HEAD, now, last_token, expires, quarantine, count, weight, first, last, waiting, 0,
    kind, RUN) .. holder1
  if more_fields then
    redis.call('HSET', key, 's', head, unpack(more_fields))
  else
    redis.call('HSET', key, 's', head)
  end
  if gone_fields then redis.call('HDEL', key, unpack(gone_fields)) end
  if expires ~= kept then redis.call('PEXPIREAT', key, expires) end
  -- An error here must not fail the step.
  if wake_channel then redis.pcall('PUBLISH', wake_channel, wake_text) end
  return now_text .. ' 0 ' .. answer
end
