-- What a view shows with protocol=zmutex: the members of the sorted set, and the foreign clients that hold some.

local names, scores = {}, {}
local read_us = tonumber(clock)

-- A set that only foreign clients use is shown, too.
function find_holders()
  local rows = redis.pcall('ZRANGE', KEYS[#KEYS], 0, MEMBERS_MAX - 1, 'WITHSCORES')
  if rows.err then return unreadable('a sorted set', rows) end
  for i = 1, #rows, 2 do
    local name, score = rows[i], tonumber(rows[i + 1])
    if is_name(name) and score > -math.huge then
      names[#names + 1], scores[name] = name, score
      local ours = string.match(get('gz' .. name) or '', '^(%d+) ')
      if score >= read_us - TIMEOUT_US and tonumber(ours) ~= score then
        local left = math.min(math.floor((score + TIMEOUT_US - read_us) / 1000) + 1, LEASE_MAX)
        local since = score <= read_us and string.format('%.0f', math.floor(score / 1000))
        foreign_holders[#foreign_holders + 1] = { since = since, left = left, member = name }
      end
    end
  end
  if #names > 0 and not meta.run then meta.run = RUN end
  -- What kind of lock it was does not matter, if it has no holders, waiters or members of ours.
  local is_used = (meta.count or 0) > 0 or meta.queue or meta.members
  if #names > 0 and not is_used then meta.kind = KIND end
end

-- Adds what our own state does not know of yet, and takes out what it does not know to be gone.
function list_members()
  local ours, states, all = native.list_members(), {}, {}
  for i = 1, #ours, 2 do states[ours[i]] = ours[i + 1] end
  for name in pairs(states) do
    local known = get('gz' .. name)
    if known and not scores[name] then states[name] = nil end
    if known == 'x' then states[name] = 'l' end
  end
  for _, name in ipairs(names) do
    local is_stale = scores[name] > 0 and scores[name] < read_us - TIMEOUT_US
    if states[name] ~= 'l' then states[name] = is_stale and 's' or states[name] or 'f' end
  end
  for name, state in pairs(states) do
    all[#all + 1] = name
    all[#all + 1] = state
  end
  return all
end
