-- Why a foreign key could not be read: it has another type, or we have no right to.

local function unreadable(what, failed)
  if not string.find(failed.err, 'WRONGTYPE', 1, true) then return failed end
  return redis.error_reply('TTWIRE there is something else than ' .. what .. ' at a key of protocol='
    .. PROTOCOL .. ': is it in use with another protocol?')
end
