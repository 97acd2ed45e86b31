-- protocol=zmutex: a pool whose members are those of a sorted set. A member's score is the time at
-- which it was last taken or kept, in microseconds; who takes it looks whether that is longer ago than
-- the timeout, and 0 always is.
--
--   gz<name> a member that was seen in the set: "score owner" while one of ours has it there, x if it is
--            to leave when a stranger's time is over, else -
--   gl       the member that is left to strangers for a while
--   go       a free member was passed by, since a stranger was in the way
--
-- A member without gz was added by a native client, and one that has nothing else was removed by one.

local set_key = KEYS[#KEYS]
-- Names in the order of their scores, the one that is free for longest first; and the scores.
local names, scores = {}, {}
-- How many are in the set, whatever they are called.
local size
-- The old score of each member whose score changed in this step and is not written yet.
local unwritten = {}

function wire.load()
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

-- Writes each score once, when the step is done: of a member that passed from one of ours to the next nobody
-- has to hear that it was free. One that is free is written by ZADD, since strangers listen for `zadd`. One
-- that is taken or kept is written by ZINCRBY, whose event `zincr` they ignore, and by which ours know that
-- it was one of us.
function wire.write()
  for name, had in pairs(unwritten) do
    local score = scores[name]
    local sum
    if score > 0 and had < math.huge then sum = redis.call('ZINCRBY', set_key, string.format('%.17g', score - had), name) end
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

-- Has somebody taken or kept it within the timeout?
local function is_fresh(name)
  return scores[name] and scores[name] >= now_us - TIMEOUT_US
end

-- Which score one of ours gave the member, and who.
local function taken_by(name)
  local score, owner = string.match(get('gz' .. name) or '', '^(%d+) (%x+)$')
  return tonumber(score), owner
end

-- Is the score still the one that we gave it?
local function is_ours(name)
  local score = taken_by(name)
  return score and score == scores[name]
end

-- Nobody of ours has it in the set any more. Answers whether one had till now.
local function give_up(name)
  local is_leaving, had = get('m' .. name) == 'l', is_ours(name)
  if had and (is_leaving or REMOVES == 1) then
    remove_from_set(name)
  elseif had then
    write_score(name, 0)
  elseif is_leaving and scores[name] then
    -- It leaves when the time of the stranger is over that has it now.
    set('m' .. name, 'h')
    set('gz' .. name, 'x')
    return false
  end
  if scores[name] then set('gz' .. name, '-') else del('gz' .. name) end
  return had
end

function gate.blocked()
  return is_alien
end

function gate.take(h)
  if h.member == '' then return end
  set('gp', PROTOCOL)
  write_score(h.member, now_us)
  set('gz' .. h.member, digits(now_us) .. ' ' .. h.owner)
end

function gate.keep(h)
  if is_alien then return end
  local _, owner = taken_by(h.member)
  -- A native client handed it over, and knew no gate. From now on strangers are kept out.
  local is_open = scores[h.member] and get('gz' .. h.member) == '-' and not is_fresh(h.member)
  if owner == h.owner or is_open then gate.take(h) end
end

-- Leaves a member to strangers for a while, if that is due and one of ours would have it else.
local function leave_to_others(name)
  local is_wanted = line('l' .. name).head or line('l').head
  if get('gl') and courtesy() > now or not is_wanted and queue.count > 0 then return end
  leave_room()
  if courtesy() > now then
    set('gl', name)
    gave_up = true
  end
end

function gate.drop(h)
  -- Or the one of ours had it from whom a native client took it over.
  if is_alien or not taken_by(h.member) then return end
  local had = give_up(h.member)
  if not scores[h.member] then
    -- It leaves the pool with its holder.
    set('m' .. h.member, 'l')
  elseif had then
    leave_to_others(h.member)
  end
end

-- Takes a member out of the pool: at once, or when the native client lets go that has it.
local function forget(name)
  del('gz' .. name)
  if take_free(name) then
    del('m' .. name)
    members.count = members.count - 1
  else
    set('m' .. name, 'l')
  end
end

-- One that is in the set is one of ours, unless a native client removed it.
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

-- What one of ours has taken is still so in the set, or it has lost it.
local function compare(name)
  local score, owner = taken_by(name)
  if not score then return end
  local is_free = string.sub(get('m' .. name) or '', 1, 1) == 'f'
  if score ~= scores[name] and not is_free then
    local h = holder_of(owner)
    if h and h.member == name then
      wake_revoked(h)
      drop_holder(h)
      return
    end
  end
  -- Or it was given back, or is held, by one who knows no gate.
  if is_free or score ~= scores[name] then give_up(name) end
  if is_free and not scores[name] then forget(name) end
end

-- Could we not read the set any more with another one in it?
function gate.is_full()
  return size >= MEMBERS_MAX
end

-- One of ours that is not in the set was removed there, unless a native client added it.
local function miss(name)
  if get('gz' .. name) then return true end
  if not gate.is_full() then add_to_set(name) end
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

-- Strangers tell nobody that they have created what the first in line waits for.
local function look_for(w)
  local name = string.match(w.ask, '^n(.*)$')
  if members.count == 0 or name and not get('m' .. name) then look_again(w.since) end
end

-- Makes the pool what the set is.
function gate.catch_up()
  if is_alien or in_use() and kind ~= 'p' then return end
  local fields, there = {}, 0
  for i, name in ipairs(names) do fields[2 * i - 1], fields[2 * i] = 'm' .. name, 'gz' .. name end
  if #fields > 0 then fetch(fields) end
  for i, name in ipairs(names) do
    -- Most of many are as they were, and nobody's.
    if not cache[fields[2 * i - 1]] or cache[fields[2 * i]] ~= '-' then
      find(name)
      compare(name)
    end
    if scores[name] and cache[fields[2 * i - 1]] then there = there + 1 end
  end
  if there < members.count then find_missing() end
  if not queue.head then return end
  if get('go') then
    -- What was passed by comes to be free by time, and by strangers.
    members.offer = members.head
    del('go')
  end
  local first = first_alive()
  if first then look_for(first) end
end

-- What is closed now was passed by. A native client, to whom it is free, would never offer it again.
function gate.rewind()
  if queue.count > 0 then members.offer = members.head end
end

function gate.stand(w)
  set('gp', PROTOCOL)
  look_for(w)
end

function gate.leave()
  gave_up = true
end

-- When it is worth looking at a stranger's member again: it may be given back at any time, and is free
-- in the end.
local function look_at_stranger(name)
  local since = math.floor(scores[name] / 1000)
  local free_at = since + TIMEOUT_US / 1000 + 1
  if since > now then since = queue.head and waiter(queue.head).since or now end
  look_again(since)
  gate.recheck = math.min(gate.recheck, free_at)
end

-- Is a stranger in the way of who would take this member, which nobody of ours has?
local function is_in_the_way(name)
  if is_alien or not scores[name] or get('gz' .. name) == 'x' then return true end
  local is_left = get('gl') == name
  if is_fresh(name) then
    if is_left then
      stranger_came()
      del('gl')
    end
    look_at_stranger(name)
    return true
  end
  if is_left and is_left_to_others() then return true end
  if is_left then del('gl') end
  return false
end

-- The same of one that somebody wants: if so, it has to be offered again.
function gate.is_closed(name)
  local is_closed = is_in_the_way(name)
  if is_closed and not get('go') then set('go', '1') end
  return is_closed
end

-- The first of the free members that may be taken.
function gate.first_open()
  local number = members.head
  while number and gate.is_closed(get('f' .. number)) do number = after(members, number) end
  return number
end

function gate.add(name)
  set('gp', PROTOCOL)
  add_to_set(name)
end

-- One that was to leave stays.
function gate.add_again(name)
  if get('gz' .. name) ~= 'x' then return false end
  set('gz' .. name, '-')
  return true
end

-- What a stranger has leaves when its time is over. Answers whether that is so.
function gate.remove(name)
  local known = get('gz' .. name)
  if string.sub(get('m' .. name), 1, 1) ~= 'f' then return nil end
  if known ~= 'x' and is_fresh(name) then
    set('gz' .. name, 'x')
    return 'C 1'
  elseif known == 'x' then
    return 'C 0'
  end
  remove_from_set(name)
  del('gz' .. name)
end

-- Does somebody hold, of those who are to be broken, who can't be told?
function gate.is_strange()
  if is_alien or ARGV[2] ~= '1' and holders.count > 0 then return false end
  for _, name in ipairs(names) do
    if is_fresh(name) and not is_ours(name) then return true end
  end
  return false
end

-- Takes from strangers all that they have.
function gate.evict()
  local count = 0
  if is_alien then return count end
  for _, name in ipairs(names) do
    if is_fresh(name) and not is_ours(name) then
      write_score(name, 0)
      count = count + 1
    end
  end
  members.offer = members.head
  return count
end
