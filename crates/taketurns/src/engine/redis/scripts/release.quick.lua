-- The short cut of a release that has to look at the time: by the only holder, if the queue is empty, or if the next
-- in line for a mutex is alive and is handed it.

local owner, bury_until = ARGV[1], math.min(ARGV[2], now + RETENTION)
local is_held = is_calm and sub(head, 125, 128) == '0001' and sub(head, HOLDER + 58, HOLDER + 89) == owner
  -- It ends now.
  and sub(head, HOLDER, HOLDER) <= '1'
  -- With longer ones the key may have to expire sooner.
  and sub(head, HOLDER + 50, HOLDER + 57) <= SLACK_DIGITS and sub(head, 110, 117) <= SLACK_DIGITS
-- The last token, without those that were reserved for turns and not used.
token = sub(head, 18, 34)
if is_held and ARGV[3] then
  local granted, tokens = sub(head, HOLDER + 2, HOLDER + 18), string.match(head, '^[mk](%d*)\n', HOLDER + 106)
  local used = tonumber(ARGV[3])
  if tokens and token + 0 == granted + (tonumber(tokens) or 1) - 1 and granted + 0 <= used
    and used <= token + 0 then
    token = string.format('%017.0f', used)
  end
end
local was_handed = is_held and sub(head, HOLDER, HOLDER) == '1'
local waiting = sub(head, 129, 134) + 0

if is_held and not was_handed and waiting == 0 then
  needed, rest, answer = now, IDLE .. sub(head, 135, HOLDER - 1), 'R'
  if bury_until > now then
    local found = call('HMGET', key, 'd', 'b' .. owner)
    local before, next = string.match(found[1] or '0 0', '^(%d+) (%d+)$')
    local buried, oldest = sub(guards, 15, 19) + 1, sub(guards, 20)
    if found[2] or buried > TOMBS_MAX then
      answer = nil
    else
      if buried == 1 then oldest = string.format('%014.0f', bury_until) end
      guards = sub(guards, 1, 14) .. string.format('%05d', buried) .. oldest
      more_fields = { 'd', before .. ' ' .. next + 1, 't' .. next, owner, 'b' .. owner, bury_until }
    end
  end
elseif is_held and waiting > 0 and bury_until <= now and sub(head, 135, 135) == 'm' then
  local from = sub(head, HOLDER + 90, HOLDER + 105)
  local found = call('HMGET', key, 'q', 'e', 'c' .. from)
  local place, tail, next, sweep = string.match(found[1], '^%d+ (%S+) (%S+) (%d+) (%S+)$')
  local front = call('HMGET', key, 'w' .. place, '>q' .. place)
  local request = sub(front[1], 18)
  local lease, to, client = sub(request, 1, 8), sub(request, 9, 40), sub(request, 41, 56)
  -- A release answers the hand-over, and a mutex has one at a time.
  local given = found[3]
  if was_handed then given = string.match(given, '^(.*) ' .. owner .. '$') end
  local taken = client == from and given or call('HGET', key, 'c' .. client)
  local deadline, longest, places, era = string.match(taken or '', '^(%d+) (%d+) (%d+) (%d+)$')
  -- It is alive, has no ballot, does not want tokens for several turns, and the clock is its token.
  if deadline and tonumber(deadline) > now and era == string.match(found[2] or '0', '^%d+')
    and not string.find(place, '.', 1, true) and sub(request, 57, 58) == 'm\n' and clock > token then
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
    token, needed = clock, now + math.min(lease, longest)
    deadline = string.format('%014.0f', needed)
    local patience = waiting > 0 and sub(head, 110, 117) or '00000000'
    rest = deadline .. deadline .. patience .. '00000010001' .. string.format('%06d', waiting)
      .. sub(head, 135, HOLDER - 1) .. '10' .. clock .. deadline .. clock .. request
    if waiting > 0 then needed = math.max(needed, now + patience) end
    local body = sub(redis.sha1hex(to), 1, 16) .. ' ' .. sub(RUN, 1, 16) .. ' G ' .. sub(clock, 2)
      .. ' ' .. sub(deadline, 2) .. ' '
    wake_channel, wake_text = CHANNEL .. client, redis.sha1hex(to .. body) .. ' ' .. body
    answer = 'R'
  end
end
