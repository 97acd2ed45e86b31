-- The state of a lock: read at the beginning of a step, written at its end. So an error on the way leaves the
-- lock as it was.

-- The head as numbers.
local function number_at(from, to)
  return sub(head, from, to) + 0
end
local seen, last_token, expires, quarantine, patience =
  number_at(1, 14), number_at(18, 34), number_at(35, 48), number_at(49, 62), number_at(110, 117)
local kind, run = sub(head, 135, 135), sub(head, 143, HOLDER - 2)
if kind == 's' then kind = kind .. number_at(136, 142) end

-- The fields that were read or will be written; false means absent.
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
local holders = { count = number_at(125, 128), weight = number_at(118, 124),
  first = number_at(82, 95), last = number_at(96, 109) }
local queue = { p = 'q', count = 0, next = '0' }
local members = { p = 'f', count = 0, next = '0' }
local tombs = { first = 0, next = 0 }
-- What a once remembers: see once.lua.
local work
-- Its functions, which come later.
local once = {}

-- How many waiters a step may still skip or grant, whether there are more, and whom it wakes.
local left, more, wakes = STEP_MAX, 0, {}

-- A list in one field: "count head tail next extra", with - for none.
local function unpack_list(list, text, extra)
  local count, head, tail, next, last = string.match(text, '^(%d+) (%S+) (%S+) (%d+) (%S+)$')
  list.count, list.next = tonumber(count), next
  if head ~= '-' then list.head, list.tail = head, tail end
  if last ~= '-' then list[extra] = last end
end

local function pack_list(list, extra)
  return list.count .. ' ' .. (list.head or '-') .. ' ' .. (list.tail or '-') .. ' ' .. list.next
    .. ' ' .. (list[extra] or '-')
end

-- Reads the rest of the lock.
local function load(fields)
  cache.h1 = holders.count > 0 and sub(head, HOLDER)
  fetch({ 'q', 'e', 'm', 'd', unpack(fields) })
  -- No quarantine is that long: the clock was set back since.
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
  local text = kind == 'o' and get('x')
  if text and sub(text, 1, 1) == 'A' then
    local failed, ended, ends = string.match(text, '^A (%d+) (%d+) (%d+)$')
    work = { failed = failed + 0, ended = ended + 0, ends = ends + 0 }
  elseif text then
    local token, at, ends, failed, lines = string.match(text, '^E (%d+) (%d+) (%d+) (%d+)\n(.*)$')
    work = { token = token, at = at + 0, ends = ends + 0, failed = failed + 0, lines = lines }
  end
  -- Last written on a server that this one knows nothing of: it was moved here, and may be old.
  if run ~= RUN and not string.find(KNOWN, run, 1, true) then
    quarantine = math.max(quarantine, now + MAX_LEASE)
  end
  if now < UNTIL then quarantine = math.max(quarantine, UNTIL) end
end

local function in_use()
  return holders.count > 0 or queue.count > 0 or members.count > 0 or work ~= nil
end

local function put(field, value, absent)
  if value == absent then
    if cache[field] then del(field) end
  elseif cache[field] ~= value then
    set(field, value)
  end
end

-- When the lock may be forgotten if there is no step until then.
local function forget_at()
  local waited_until = now
  if queue.count > 0 then waited_until = now + patience end
  return math.max(math.max(holders.last, waited_until) + RETENTION, work and work.ends or 0)
end

-- When the key expires: never, while a pool has members. That is changed only if it is too early or much too
-- late, since it takes as long as a write. A release that does not look at the time leaves it as it is, so it is
-- later than needed by no more than it may be after such a release.
local function expires_at()
  if members.count > 0 then return 0 end
  local needed = forget_at()
  local latest = math.max(needed, now + RETENTION + EXPIRY_SLACK)
  if needed <= expires and expires <= latest then return expires end
  return latest
end

-- Writes the records of clients; see queue.lua.
local write_clients

local function write()
  write_clients()
  local kept = expires
  expires = expires_at()
  dirty.h1 = nil
  if queue.count == 0 then patience = 0 end
  local buried, oldest = tombs.next - tombs.first, 0
  if buried > 0 then oldest = get('b' .. get('t' .. tombs.first)) end
  set('H', clock .. string.format('%017.0f%014.0f%014.0f%05d%014.0f%014.0f%014.0f%08d%07d%04d%06d',
    last_token, expires, quarantine, buried, oldest, holders.first, holders.last, patience,
    holders.weight, holders.count, queue.count) .. sub(kind, 1, 1)
    .. string.format('%07d', tonumber(sub(kind, 2)) or 0) .. RUN_LINE .. (cache.h1 or ''))
  put('e', era.number .. ' ' .. era.began, '0 0')
  put('q', pack_list(queue, 'sweep'), '0 - - 0 -')
  put('m', pack_list(members, 'offer'), '0 - - 0 -')
  put('d', tombs.first .. ' ' .. tombs.next, '0 0')
  put('x', once.text())
  local values, gone = {}, {}
  for field in pairs(dirty) do
    if cache[field] == false then
      gone[#gone + 1] = field
    else
      values[#values + 1] = field
      values[#values + 1] = cache[field]
    end
  end
  -- In pieces: Lua takes some 8000 arguments.
  for i = 1, #values, 4000 do
    redis.call('HSET', key, unpack(values, i, math.min(i + 3999, #values)))
  end
  for i = 1, #gone, 4000 do
    redis.call('HDEL', key, unpack(gone, i, math.min(i + 3999, #gone)))
  end
  if expires == kept then return end
  if expires == 0 then redis.call('PERSIST', key) else redis.call('PEXPIREAT', key, expires) end
end

-- Is there nothing to remember? Then the lock leaves no trace.
local function is_blank()
  return last_token == 0 and not in_use() and tombs.first == tombs.next
end

-- Ends a step: writes, wakes, and answers, with 1 if there is more to do.
local function finish(reply)
  if not is_blank() then
    write()
  elseif not is_new then
    redis.call('DEL', key)
  end
  for _, wake in ipairs(wakes) do
    -- An error here must not fail the step.
    redis.pcall('PUBLISH', wake[1], wake[2])
  end
  return now .. ' ' .. more .. ' ' .. reply
end
