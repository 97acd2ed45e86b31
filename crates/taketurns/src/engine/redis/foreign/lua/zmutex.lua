-- protocol=zmutex: a pool whose members are those of a sorted set. A member's score is the time at which it
-- was last taken or renewed, in microseconds. A client may take a member whose score is older than the
-- timeout; 0 always is.
--
--   gz<name> a member that was seen in the set: "score owner" while a client of ours has it there, x if it
--            leaves when the time of a foreign client is over, else -
--   gl       the member that is left to foreign clients for a while
--   go       a free member was passed by, since a foreign client was in the way
--
-- A member without gz was added by a native client; one with gz and nothing else was removed by one.

local set_key = KEYS[#KEYS]
-- Names in the order of their scores, the one that is free for longest first; and the scores.
local names, scores = {}, {}
-- How many are in the set, whatever they are called.
local size
-- The old score of each member whose score changed in this step and is not written yet.
local unwritten = {}

function foreign.load()
  local rows = redis.pcall('ZRANGE', set_key, 0, MEMBERS_MAX, 'WITHSCORES')
  if rows.err then return unreadable('a sorted set', rows) end
  if #rows > 2 * MEMBERS_MAX then
    return redis.error_reply('TTWIRE the sorted set has more than ' .. MEMBERS_MAX .. ' members')
  end
  size = #rows / 2
  for i = 1, #rows, 2 do
    local name, score = rows[i], tonumber(rows[i + 1])
    -- No time can be added to a score without an end.
    if is_name(name) and score > -math.huge then
      names[#names + 1], scores[name] = name, score
    end
  end
end

local function write_score(name, score)
  unwritten[name] = unwritten[name] or scores[name]
  scores[name] = score
end

-- Writes each score once, when the step is done: no client has to hear that a member was free which one of
-- ours handed to the next. A free member is written by ZADD, since foreign clients listen for `zadd`. One that
-- is held is written by ZINCRBY, whose event `zincr` they ignore, and by which our clients know each other.
function foreign.write()
  -- A member that is closed now was passed by. A native client, to whom it is free, would never offer it again.
  if queue.count > 0 then members.offer = members.head end
  for name, had in pairs(unwritten) do
    local score = scores[name]
    local sum
    if score > 0 and had < math.huge then
      sum = redis.call('ZINCRBY', set_key, string.format('%.17g', score - had), name)
    end
    -- Next to a score that is no time, a time may be lost in rounding.
    if not sum or tonumber(sum) ~= score then redis.call('ZADD', set_key, digits(score), name) end
  end
end

local function remove_from_set(name)
  size = size - redis.call('ZREM', set_key, name)
  scores[name], unwritten[name] = nil, nil
end

local function add_to_set(name)
  size = size + redis.call('ZADD', set_key, 'NX', 0, name)
  scores[name] = scores[name] or 0
  set('gz' .. name, '-')
end

-- Was it taken or renewed within the timeout?
local function is_fresh(name)
  return scores[name] and scores[name] >= now_us - TIMEOUT_US
end

-- Has no client of ours the member?
local function is_free(name)
  return string.sub(get('m' .. name) or '', 1, 1) == 'f'
end

-- The score that a client of ours gave the member, and its owner.
local function taken_by(name)
  local score, owner = string.match(get('gz' .. name) or '', '^(%d+) (%x+)$')
  return tonumber(score), owner
end

-- Is the score still the one that we gave it?
local function is_ours(name)
  local score = taken_by(name)
  return score and score == scores[name]
end

-- No client of ours has it in the set any more. Answers whether one had till now.
local function give_up(name)
  local is_leaving, had = get('m' .. name) == 'l', is_ours(name)
  if had and (is_leaving or REMOVES == 1) then
    remove_from_set(name)
  elseif had then
    write_score(name, 0)
  elseif is_leaving and scores[name] then
    -- It leaves when the time of the foreign client is over that has it now.
    set('m' .. name, 'h')
    set('gz' .. name, 'x')
    return false
  end
  if scores[name] then set('gz' .. name, '-') else del('gz' .. name) end
  return had
end

function fits(w)
  return not is_other_protocol and native.fits(w)
end

local function take(h)
  if h.member == '' then return end
  set('gp', PROTOCOL)
  write_score(h.member, now_us)
  set('gz' .. h.member, digits(now_us) .. ' ' .. h.owner)
end

function grant(...)
  local h = native.grant(...)
  take(h)
  return h
end

function renew(h, client, lease)
  native.renew(h, client, lease)
  local _, owner = taken_by(h.member)
  -- A native client handed it over. From now on foreign clients are kept out.
  local is_open = scores[h.member] and get('gz' .. h.member) == '-' and not is_fresh(h.member)
  if owner == h.owner or is_open then take(h) end
end

-- Leaves a member to foreign clients for a while, if that is due and a client of ours would have it otherwise.
local function leave_to_others(name)
  local is_wanted = native.foremost_for(name)
  if get('gl') and courtesy.read() > now or not is_wanted and queue.count > 0 then return end
  courtesy.leave_room()
  if courtesy.read() > now then
    set('gl', name)
    gave_up = true
  end
end

function drop_holder(h)
  -- The owner in the set may be another, from which a native client took it over.
  if not is_other_protocol and taken_by(h.member) then
    local had = give_up(h.member)
    if not scores[h.member] then
      -- It leaves the pool with its holder.
      set('m' .. h.member, 'l')
    elseif had then
      leave_to_others(h.member)
    end
  end
  native.drop_holder(h)
end

-- Takes a member out of the pool: at once, or when the native client that holds it releases it.
local function forget(name)
  del('gz' .. name)
  if take_free(name) then
    del('m' .. name)
    members.count = members.count - 1
  else
    set('m' .. name, 'l')
  end
end

-- Takes a member of the set into the pool, unless a native client removed it.
local function find(name)
  local state, known = get('m' .. name), get('gz' .. name)
  if not state and known then
    del('gz' .. name)
    remove_from_set(name)
  elseif not state then
    if members.count >= MEMBERS_MAX then return end
    kind = 'p'
    set('gp', PROTOCOL)
    members.count = members.count + 1
    free_again(name)
    set('gz' .. name, '-')
  elseif not known then
    set('gz' .. name, '-')
  elseif known == 'x' and not is_fresh(name) then
    remove_from_set(name)
    forget(name)
  end
end

-- Does the holder have the member still in the set? Otherwise it has lost it.
local function compare(name)
  local score, owner = taken_by(name)
  if not score then return end
  local free = is_free(name)
  if score ~= scores[name] and not free then
    local h = holder_of(owner)
    if h and h.member == name then
      wake_revoked(h)
      drop_holder(h)
      return
    end
  end
  -- Or a native client has released it, or holds it.
  if free or score ~= scores[name] then give_up(name) end
  if free and not scores[name] then forget(name) end
end

-- Would the set be too large to be read with one more member?
local function is_full()
  return size >= MEMBERS_MAX
end

-- A member that is not in the set was removed there, unless a native client added it.
local function miss(name)
  if get('gz' .. name) then return true end
  if not is_full() then add_to_set(name) end
end

local function find_missing()
  local number = members.head
  while number do
    local name = get('f' .. number)
    number = after(members, number)
    if not scores[name] and miss(name) then forget(name) end
  end
  for _, h in ipairs(all_holders()) do
    local name = h.member
    local _, owner = taken_by(name)
    if not scores[name] and owner == h.owner then
      set('m' .. name, 'l')
      wake_revoked(h)
      drop_holder(holder_of(h.owner))
    elseif not scores[name] and get('m' .. name) ~= 'l' and miss(name) then
      set('m' .. name, 'l')
    end
  end
end

-- Foreign clients tell nobody that they have created what the first in line waits for.
local function look_for(w)
  local name = string.match(w.ask, '^n(.*)$')
  if members.count == 0 or name and not get('m' .. name) then look_again(w.since) end
end

-- Makes the pool what the set is.
function catch_up()
  native.catch_up()
  if is_other_protocol or in_use() and kind ~= 'p' then return end
  local fields, there = {}, 0
  for i, name in ipairs(names) do fields[2 * i - 1], fields[2 * i] = 'm' .. name, 'gz' .. name end
  if #fields > 0 then fetch(fields) end
  for i, name in ipairs(names) do
    -- Most are as they were, and free.
    if not cache[fields[2 * i - 1]] or cache[fields[2 * i]] ~= '-' then
      find(name)
      compare(name)
    end
    if scores[name] and cache[fields[2 * i - 1]] then there = there + 1 end
  end
  if there < members.count then find_missing() end
  if not queue.head then return end
  if get('go') then
    -- Time, or a foreign client, may have freed what was passed by.
    members.offer = members.head
    del('go')
  end
  local first = first_alive()
  if first then look_for(first) end
end

function stand(front, place, behind, w)
  native.stand(front, place, behind, w)
  set('gp', PROTOCOL)
  look_for(w)
  return place
end

function leave(place, w)
  native.leave(place, w)
  gave_up = true
end

-- Looks again at a member that a foreign client holds: it may be released at any time, and expires in the end.
local function look_at_held(name)
  local since = math.floor(scores[name] / 1000)
  local free_at = since + TIMEOUT_US / 1000 + 1
  if since > now then since = queue.head and waiter(queue.head).since or now end
  look_again(since)
  look_in(free_at - now)
end

-- Is a foreign client in the way of one of ours that would take this free member?
local function is_in_the_way(name)
  if is_other_protocol or not scores[name] or get('gz' .. name) == 'x' then return true end
  local is_left = get('gl') == name
  if is_fresh(name) then
    if is_left then
      courtesy.was_used()
      del('gl')
    end
    look_at_held(name)
    return true
  end
  if is_left and courtesy.is_on() then return true end
  if is_left then del('gl') end
  return false
end

-- The same for a member that a client wants. If it is closed, it must be offered again.
local function is_closed(name)
  local closed = is_in_the_way(name)
  if closed and not get('go') then set('go', '1') end
  return closed
end

function foremost_for(member)
  local place = native.foremost_for(member)
  if place and not is_closed(member) then return place end
end

function open_member(wanted)
  if wanted then
    if is_free(wanted) and is_closed(wanted) then return nil end
    return native.open_member(wanted)
  end
  local number = members.head
  while number and is_closed(get('f' .. number)) do number = after(members, number) end
  if number and was_offered(number) then return get('f' .. number) end
end

function foreign.is_held()
  for _, name in ipairs(names) do
    if is_fresh(name) and not is_ours(name) then return true end
  end
  return false
end

function foreign.evict()
  local count = 0
  for _, name in ipairs(names) do
    if is_fresh(name) and not is_ours(name) then
      write_score(name, 0)
      count = count + 1
    end
  end
  members.offer = members.head
  return count
end
