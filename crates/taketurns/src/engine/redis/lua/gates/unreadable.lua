-- Why a key of the wire could not be read: there is something else, or we may not.
local function unreadable(what, failed)
  if not string.find(failed.err, 'WRONGTYPE', 1, true) then return failed end
  return redis.error_reply('TTWIRE there is something else than ' .. what .. ' at a key of protocol='
    .. PROTOCOL .. ': is it in use with another protocol?')
end
