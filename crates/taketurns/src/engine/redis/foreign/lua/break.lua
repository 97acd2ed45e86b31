-- A break, on a foreign protocol: one of all holders is meant for foreign clients, too. They can't be told to
-- stop, so they lose the lock at once or not at all.

function carry_out(request)
  local reply = request()
  if ARGV[1] ~= '-' or holders.count > 0 or not foreign.is_held() then return reply end
  if ARGV[2] ~= '1' then return redis.error_reply('TTSTRANGER its holder can not be told') end
  return 'K ' .. string.match(reply, '%d+') + foreign.evict()
end
