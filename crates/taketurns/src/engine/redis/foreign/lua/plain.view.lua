-- What a view shows with protocol=plain and protocol=python-redis-lock: the foreign client that holds.

function find_holders()
  local value = redis.pcall('GET', KEYS[#KEYS])
  if type(value) == 'table' then return unreadable('a string', value) end
  if not value or is_ours(value) then return end
  local left = redis.call('PTTL', KEYS[#KEYS])
  note_holder(redis.sha1hex(value), left >= 0 and left)
end
