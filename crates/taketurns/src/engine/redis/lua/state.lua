-- The state of one lock, read at the beginning of a step and written at its end.
--
-- Nothing is written before the step knows all that it will write: an error on the way leaves the lock
-- as it was.

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
  if cache[field] == false and not dirty[field] then return end
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

local era = { number = 0, began = 0 }
local holders = { count = count, weight = weight, first = first, last = last }
local queue = { p = 'q', count = 0, next = '0' }
local members = { p = 'f', count = 0, next = '0' }
local tombs = { first = 0, next = 0 }

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

-- Reads the rest of the lock.
local function load(fields)
  cache.h1 = count > 0 and string.sub(head, head_end)
  fetch({ 'q', 'e', 'm', 'd', unpack(fields) })
  -- Of a clock that was set back since: no quarantine is that long.
  if quarantine > now + QUARANTINE_MAX then quarantine = now + MAX_LEASE end
  if cache.e then
    local number, began = string.match(cache.e, '^(%d+) (%d+)$')
    era.number, era.began = tonumber(number), tonumber(began)
  end
  if cache.q then unpack_list(queue, cache.q, 'sweep') end
  if cache.m then unpack_list(members, cache.m, 'offer') end
  if cache.d then
    local first, next = string.match(cache.d, '^(%d+) (%d+)$')
    tombs.first, tombs.next = tonumber(first), tonumber(next)
  end
  -- Last written in a run of which this server knows nothing: it was moved here, and what it says
  -- may be old.
  if run ~= RUN and not string.find(KNOWN, run, 1, true) then
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

-- When the key goes: never, while a pool has members. It is moved only if it comes too early, or much too
-- late, since that takes as long as to write.
local function expires_at()
  if members.count > 0 then return 0 end
  local needed = forget_at()
  if needed <= expires and expires <= needed + EXPIRY_SLACK then return expires end
  return needed + EXPIRY_SLACK
end

-- Writes what the queue knows of clients; set there.
local write_clients

local function write()
  write_clients()
  put('gp', in_use() and get('gp') or nil) -- gate.
  if gate.rewind then gate.rewind() end
  local kept = expires
  expires = expires_at()
  dirty.h1 = nil
  set('s', struct.pack(HEAD, now, last_token, expires, quarantine, holders.count, holders.weight,
    holders.first, holders.last, queue.count, tombs.next - tombs.first, kind, RUN) .. (cache.h1 or ''))
  put('e', era.number .. ' ' .. era.began, '0 0')
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
  if expires == kept then return end
  if expires == 0 then redis.call('PERSIST', key) else redis.call('PEXPIREAT', key, expires) end
end

-- Ends a step: writes, wakes, and answers, with 1 if there is more to do.
-- A lock with nothing to remember leaves no trace.
local function finish(reply)
  gate.write()
  local is_blank = last_token == 0 and not in_use() and tombs.first == tombs.next
  if gate.remembers() then is_blank = false end
  if is_blank then
    if head then redis.call('DEL', key) end
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
