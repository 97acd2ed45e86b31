-- The state of one lock, read at the beginning of a step and written at its end.
--
-- Everything is in one hash, so it has one slot and migrates whole. Nothing is written before the
-- step knows all that it will write: an error on the way leaves the lock as it was.
--
--   k        kind: m mutex, r read-write lock, s<permits> semaphore, p pool
--   t        the last token          s    the time of the last step
--   r        the server's run at the last step
--   z        until when nobody is granted (quarantine)
--   e        era: "number began"     a clock set back begins a new one
--   h        holders: "count weight first last", first and last bound when their leases end
--   h<slot>  a holder: its eighth line has two flags (handed, revoked) and, if it is a vote of a
--            quorum's node, its number and ticket: "10 number ticket"
--   o<owner> where an owner is: h<slot> or w<place>
--   q        queue: "count head tail next sweep", the list being in the order of the places
--   w<place> a waiter; the place is its number, or "ticket.owner" if it was asked for with a ballot
--   c<client> "deadline waiter-lease waiting era [handed owners]"
--   l        the line of those who take any member of a pool: "head tail"
--   l<name>  the line of those who want this member
--   m        members: "count head tail next offer", the list being that of the free ones
--   m<name>  a member: f<number> free, h held, l held and leaving
--   f<number> which member that is
--   d        tombs: "first next"     t<number>  its owner       b<owner>  until when
--   g…       what a gate needs to remember: see gates/
--   >q<n> <q<n> >l<n> <l<n> >f<n> <f<n>          links of the lists: all places, lines, free members
--
-- Names and labels have no control characters, so a newline parts the values of holders and waiters.

local key = KEYS[1]
-- Read once: it moves on during a script.
local now_us = clock()
local now = (now_us - now_us % 1000) / 1000

-- What was read or is to be written, by field; false means absent.
local cache, dirty = {}, {}

local function fetch(fields)
  local values = redis.call('HMGET', key, unpack(fields))
  for i, field in ipairs(fields) do
    if cache[field] == nil then cache[field] = values[i] end
  end
end

local function get(field)
  local value = cache[field]
  if value == nil then
    value = redis.call('HGET', key, field)
    cache[field] = value
  end
  return value
end

local function set(field, value)
  cache[field] = value
  dirty[field] = true
end

local function del(field)
  cache[field] = false
  dirty[field] = true
end

-- Tokens and tickets have more digits than Lua prints of a number.
local function digits(number)
  return string.format('%.0f', number)
end

-- A number of a request, however large: past the largest token all are the same.
local function token_of(text)
  return math.min(tonumber(text), AGREED_MAX)
end

local kind, last_token, seen, quarantine
local era = { number = 0, began = 0 }
local holders = { count = 0, weight = 0, first = 0, last = 0 }
local queue = { p = 'q', count = 0, next = '0' }
local members = { p = 'f', count = 0, next = '0' }
local tombs = { first = 0, next = 0 }
local existed, had_members

-- What a step may still skip or grant, whether there was more, and whom it has to wake.
local left, more, wakes = STEP_MAX, 0, {}

-- A list in one field: "count head tail next extra", with - for none.
local function unpack_list(list, text, extra)
  local count, head, tail, next, last = string.match(text, '^(%d+) (%S+) (%S+) (%d+) (%S+)$')
  local function entry(word) return word ~= '-' and word or nil end
  list.count, list.next = tonumber(count), next
  list.head, list.tail, list[extra] = entry(head), entry(tail), entry(last)
end

local function pack_list(list, extra)
  return list.count .. ' ' .. (list.head or '-') .. ' ' .. (list.tail or '-') .. ' ' .. list.next
    .. ' ' .. (list[extra] or '-')
end

-- Is there something at the key that no step has written? Every step writes time, kind and run.
local function is_foreign()
  if not cache.s then return redis.call('HLEN', key) > 0 end
  local k = cache.k or ''
  local is_kind = k == 'm' or k == 'r' or k == 'p' or string.find(k, '^s%d+$')
  return not (is_kind and cache.r and tonumber(cache.s))
end

-- Reads the lock. An error if it is none; and if the marker is not the one that this script was made
-- for: then the state may have been lost (FLUSHALL, a master that was a replica meanwhile), or
-- somebody knows of a longer lease or a quarantine that we don't, and the client has to look again.
-- Not only for locks that are new here: one that is there may be old.
local function load(fields)
  fetch({ 's', 'k', 't', 'r', 'z', 'e', 'h', 'q', 'm', 'd', 'h1', unpack(fields) })
  if is_foreign() then return redis.error_reply('WRONGTYPE this hash is no lock') end
  existed = cache.s ~= false
  -- If it can't be read, the client is the one to say why.
  if MARK ~= '' and redis.pcall('GET', KEYS[2]) ~= MARK then
    return redis.error_reply('TTVERIFY the marker is not what it was')
  end
  kind = cache.k or 'm'
  seen = tonumber(cache.s) or 0
  last_token = tonumber(cache.t) or 0
  quarantine = tonumber(cache.z) or 0
  -- Of a clock that was set back since: no quarantine is that long.
  if quarantine > now + QUARANTINE_MAX then quarantine = now + MAX_LEASE end
  if cache.e then
    local number, began = string.match(cache.e, '^(%d+) (%d+)$')
    era.number, era.began = tonumber(number), tonumber(began)
  end
  if cache.h then
    local count, weight, first, last = string.match(cache.h, '^(%d+) (%d+) (%d+) (%d+)$')
    holders.count, holders.weight = tonumber(count), tonumber(weight)
    holders.first, holders.last = tonumber(first), tonumber(last)
  end
  if cache.q then unpack_list(queue, cache.q, 'sweep') end
  if cache.m then unpack_list(members, cache.m, 'offer') end
  if cache.d then
    local first, next = string.match(cache.d, '^(%d+) (%d+)$')
    tombs.first, tombs.next = tonumber(first), tonumber(next)
  end
  had_members = members.count > 0
  -- Last written in a run of which this server knows nothing: it was moved here, and what it says
  -- may be old.
  if existed and cache.r ~= RUN and not string.find(KNOWN, cache.r, 1, true) then
    quarantine = math.max(quarantine, now + MAX_LEASE)
  end
  if now < UNTIL then quarantine = math.max(quarantine, UNTIL) end
  do return gate.load() end
end

local function in_use()
  return holders.count > 0 or queue.count > 0 or members.count > 0
end

local function put(field, value, absent)
  if value == absent then
    if cache[field] then del(field) end
  elseif cache[field] ~= value then
    set(field, value)
  end
end

-- When the lock may be forgotten if nobody touches it until then.
local function forget_at()
  local waited_until = now
  if queue.count > 0 then waited_until = now + LEASE_MAX end
  return math.max(holders.last, waited_until) + RETENTION
end

-- Writes what the queue knows of clients; set there.
local write_clients

local function write()
  write_clients()
  put('gp', in_use() and get('gp') or nil) -- gate.
  if gate.rewind then gate.rewind() end
  put('k', kind)
  put('s', now)
  put('r', RUN)
  put('t', digits(last_token), '0')
  put('z', quarantine .. '', '0')
  put('e', era.number .. ' ' .. era.began, '0 0')
  put('h', holders.count .. ' ' .. holders.weight .. ' ' .. holders.first .. ' ' .. holders.last,
    '0 0 0 0')
  put('q', pack_list(queue, 'sweep'), '0 - - 0 -')
  put('m', pack_list(members, 'offer'), '0 - - 0 -')
  put('d', tombs.first .. ' ' .. tombs.next, '0 0')
  local values, gone = {}, {}
  for field in pairs(dirty) do
    if cache[field] == false then
      gone[#gone + 1] = field
    else
      values[#values + 1] = field
      values[#values + 1] = cache[field]
    end
  end
  -- In pieces, since Lua has room for some 8000 arguments.
  for i = 1, #values, 4000 do
    redis.call('HSET', key, unpack(values, i, math.min(i + 3999, #values)))
  end
  for i = 1, #gone, 4000 do
    redis.call('HDEL', key, unpack(gone, i, math.min(i + 3999, #gone)))
  end
  if members.count == 0 then
    redis.call('PEXPIREAT', key, forget_at())
  elseif not had_members then
    redis.call('PERSIST', key)
  end
end

-- Ends a step: writes, wakes, and answers, with 1 if there is more to do.
-- A lock with nothing to remember leaves no trace.
local function finish(reply)
  local is_blank = last_token == 0 and not in_use() and tombs.first == tombs.next
  if gate.remembers() then is_blank = false end
  if is_blank then
    if existed then redis.call('DEL', key) end
  else
    write()
  end
  gate.finish()
  for _, wake in ipairs(wakes) do
    -- The step is done, whoever hears of it.
    redis.pcall('PUBLISH', wake[1], wake[2])
  end
  return now .. ' ' .. more .. ' ' .. reply
end
