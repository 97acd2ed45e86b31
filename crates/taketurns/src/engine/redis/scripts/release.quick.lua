-- The short cut of a release: by the only holder, if the queue is empty, or if the next in line for a mutex
-- is alive and is handed it.

local owner = ARGV[1]
local is_held = is_calm and count == 1 and ARGV[2] == '0'
  and string.find(head, owner, head_end, true) == head_end + 2
-- The last token, without those that were reserved for turns and not used.
local kept = last_token
if is_held and ARGV[3] then
  local token, tokens = string.match(head, '^%x+\n[^\n]*\n%x+\n(%d+)\nm(%d*)\n', head_end)
  local used = tonumber(ARGV[3])
  if token and last_token == token + (tonumber(tokens) or 1) - 1 and tonumber(token) <= used
    and used <= last_token then
    kept = used
  end
end
local was_handed = is_held and string.sub(head, head_end, head_end) == '1'

if is_held and not was_handed and waiting == 0 then
  count, weight, first, last, holder1, last_token = 0, 0, 0, 0, '', kept
  answer = 'R'
elseif is_held and waiting > 0 and kind == 'm' then
  local from = string.match(head, '^%x+\n[^\n]*\n(%x+)\n', head_end)
  local found = redis.call('HMGET', key, 'q', 'e', 'c' .. from)
  local place, tail, next, sweep = string.match(found[1], '^%d+ (%S+) (%S+) (%d+) (%S+)$')
  local front = redis.call('HMGET', key, 'w' .. place, '>q' .. place)
  local to, client, lease, label = string.match(front[1], '^(%x+)\n(%x+)\nm\n(%d+)\n%d+\n(.*)$')
  -- A release answers the hand-over, and a mutex has one at a time.
  local given = found[3]
  if was_handed then given = string.match(given, '^(.*) ' .. owner .. '$') end
  -- A waiter that wants tokens for several turns is left to the parts below.
  local taken = client and (client == from and given or redis.call('HGET', key, 'c' .. client))
  local deadline, longest, places, era = string.match(taken or '', '^(%d+) (%d+) (%d+) (%d+)$')
  -- It is alive, has no ballot, and the clock is its token.
  if deadline and tonumber(deadline) > now and era == string.match(found[2] or '0', '^%d+')
    and not string.find(place, '.', 1, true) and now_us > kept and now_us <= TOKEN_CLOCK_MAX then
    local behind = front[2] or '-'
    waiting = waiting - 1
    more_fields = {
      'q', waiting .. ' ' .. behind .. ' ' .. (waiting > 0 and tail or '-') .. ' ' .. next .. ' '
        .. (sweep == place and behind or sweep),
      'c' .. client, deadline .. ' ' .. longest .. ' ' .. places - 1 .. ' ' .. era .. ' ' .. to,
    }
    gone_fields = { 'w' .. place, 'o' .. to }
    if waiting > 0 then gone_fields[3], gone_fields[4] = '>q' .. place, '<q' .. behind end
    if was_handed and client ~= from then
      if string.find(given, '^%d+ %d+ 0 ') then
        gone_fields[#gone_fields + 1] = 'c' .. from
      else
        more_fields[5], more_fields[6] = 'c' .. from, given
      end
    end
    last_token, first = now_us, now + math.min(lease, longest)
    last = first
    deadline = string.format('%.0f', first)
    holder1 = '10' .. to .. '\n\n' .. client .. '\n' .. clock .. '\nm\n' .. lease .. '\n' .. deadline
      .. '\n' .. now_text .. '\n\n' .. label
    local body = string.sub(redis.sha1hex(to), 1, 16) .. ' ' .. string.sub(RUN, 1, 16) .. ' G ' .. clock
      .. ' ' .. deadline .. ' '
    wake_channel, wake_text = CHANNEL .. client, redis.sha1hex(to .. body) .. ' ' .. body
    answer = 'R'
  end
end
