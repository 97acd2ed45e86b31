local names, scores = {}, {}
local read_us = tonumber(clock)

-- Those of the set who hold a member, and are none of ours. A set that only strangers use is shown, too.
function find_strangers(meta)
  local rows = redis.pcall('ZRANGE', KEYS[#KEYS], 0, MEMBERS_MAX - 1, 'WITHSCORES')
  if rows.err then return unreadable('a sorted set', rows) end
  for i = 1, #rows, 2 do
    local name, score = rows[i], tonumber(rows[i + 1])
    if is_name(name) and score > -math.huge then
      names[#names + 1], scores[name] = name, score
      local ours = string.match(redis.call('HGET', KEYS[1], 'gz' .. name) or '', '^(%d+) ')
      if score >= read_us - TIMEOUT_US and tonumber(ours) ~= score then
        local left = math.min(math.floor((score + TIMEOUT_US - read_us) / 1000) + 1, LEASE_MAX)
        local since = score <= read_us and string.format('%.0f', math.floor(score / 1000))
        strangers[#strangers + 1] = { since = since, left = left, member = name }
      end
    end
  end
  if #names > 0 and not meta.run then meta.run = RUN end
  -- What else it was is of no interest, if nobody holds it, waits for it, or has added members.
  local is_used = (meta.count or 0) > 0 or meta.queue or meta.members
  if #names > 0 and not is_used then meta.kind = KIND end
end

-- Adds what our own state does not know of yet, and takes out what it does not know to be gone.
function gate.members(members)
  local states = {}
  for i = 1, #members, 2 do states[members[i]] = members[i + 1] end
  for name in pairs(states) do
    local known = redis.call('HGET', KEYS[1], 'gz' .. name)
    if known and not scores[name] then states[name] = nil end
    if known == 'x' then states[name] = 'l' end
  end
  for _, name in ipairs(names) do
    local is_stale = scores[name] > 0 and scores[name] < read_us - TIMEOUT_US
    if states[name] ~= 'l' then states[name] = is_stale and 's' or states[name] or 'f' end
  end
  for i = #members, 1, -1 do members[i] = nil end
  for name, state in pairs(states) do
    members[#members + 1] = name
    members[#members + 1] = state
  end
end
