function find_strangers(meta)
  local value = redis.pcall('GET', KEYS[#KEYS])
  if type(value) == 'table' then return unreadable('a string', value) end
  if not value or is_ours(meta, value) then return end
  local left = redis.call('PTTL', KEYS[#KEYS])
  stranger(redis.sha1hex(value), left >= 0 and left)
end
