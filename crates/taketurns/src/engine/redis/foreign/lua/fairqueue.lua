-- protocol=fairqueue: `lock:` has the token of the holder, `lock-queue:` the tokens of all waiters, ours
-- among them. A release calls the head of that queue by a push to its `lock-notify:`.
--
-- That is the document. amphp/redis, the library that people have, differs. Its clients stand in the queue
-- from their first look on, poll every 15 ms or less often, neither make nor hear calls, and let the queue
-- expire. So our clients poll them, leave no room for them, and keep the queue alive while they wait. Its
-- tokens are 16 random bytes in base64. Its clients are called all the same: a client that follows the
-- document may have such a token.
--
--   g<id>   the owner of ours that waits under this id
--   gn      "since id": which foreign client at the head was called, and when

lock_key = KEYS[#KEYS - 1]
local queue_key, head = KEYS[#KEYS], nil

-- A client that is alive blocks until it is called, and comes at once. One that has not come by then is gone.
local GRACE = 1000
-- How long a queue that expires lives on while a client of ours waits.
local QUEUE_MS = 60000
-- How often a holder that calls nobody is looked at, at the slowest.
local POLL_MS = 40

local function is_amphp(id)
  return #id == 24 and string.find(id, '^[%w+/]+==$') ~= nil
end

local function calls_of(id)
  return 'lock-notify:' .. id
end

function foreign.load()
  value = redis.pcall('GET', lock_key)
  if type(value) == 'table' then return unreadable('a string', value) end
  head = redis.pcall('LINDEX', queue_key, 0)
  if type(head) == 'table' then return unreadable('a list', head) end
end

-- Is that a waiter of ours, or a holder that waited? Not one that a native client took for dead and left there.
local function is_ours(id)
  local owner = #id == 40 and get('g' .. id)
  return owner and (holder_of(owner) or place_of(owner))
end

local function is_others_turn()
  return not value and head and not is_ours(head)
end

-- Calls the foreign client at the head, once. It is not promoted: by the letter of the document, a client
-- that is deletes the call and waits for its own lock to end. Answers since when it has been called. After a
-- long time without a look the call may have been for an earlier turn of the same client.
local function call_head()
  local id = redis.sha1hex(head)
  local since, last = string.match(get('gn') or '', '^(%d+) (%x+)$')
  since = tonumber(since)
  if last == id and since <= now and now - since < GRACE + 2 * LOOK then return since end
  set('gn', now .. ' ' .. id)
  push_to(calls_of(head), CALL_MS)
  return now
end

local function forget_call()
  if get('gn') then del('gn') end
end

-- Takes an id out of the queue, once or wherever it is (0), and deletes its call.
local function take_out_of_line(id, times)
  redis.call('LREM', queue_key, times, id)
  redis.call('DEL', calls_of(id))
  if #id == 40 and get('g' .. id) then del('g' .. id) end
  head = redis.call('LINDEX', queue_key, 0)
end

-- Puts our waiters back that the queue has lost: the first, if a foreign client promoted it and it could not
-- be granted the lock in time (there was a quarantine, or it was late); and all, if the queue has expired.
-- They came before all that are in it now.
local function stand_again()
  local lost, place = {}, queue.head
  for _ = 1, STEP_MAX do
    local id = place and public_owner(waiter(place).owner)
    if not id or redis.call('LPOS', queue_key, id) then break end
    -- A native client has no place there.
    if get('g' .. id) and value ~= id then lost[#lost + 1] = id end
    place = after(queue, place)
  end
  for i = #lost, 1, -1 do redis.call('LPUSH', queue_key, lost[i]) end
  head = lost[1] or head
end

-- Notes a foreign client that sees the lock only while it is free.
local function note(id)
  if id and not is_amphp(id) and not is_ours(id) then courtesy.was_used() end
end

function foreign.blocks()
  stand_again()
  if value then
    -- A foreign client has promoted the first. By the document that client is the last in line now.
    if is_ours(value) then
      note(redis.call('LINDEX', queue_key, -1))
      return false
    end
    note(value)
    forget_call()
    local since = seen_since(redis.sha1hex(value))
    if is_amphp(value) then look_again(since, POLL_MS) else look_at_its_end(lock_key) end
    return true
  end
  while is_others_turn() do
    note(head)
    local called = call_head()
    if now < called + GRACE then
      if is_amphp(head) then look_again(called, POLL_MS) end
      look_in(called + GRACE - now)
      return true
    end
    take_out_of_line(head, 0)
  end
  return courtesy.is_on()
end

function foreign.is_open()
  return not value or is_ours(value)
end

function foreign.take(h)
  local id = public_owner(h.owner)
  if get('g' .. id) then take_out_of_line(id, 1) end
  forget_call()
  value = id
  redis.call('SET', lock_key, value, 'PXAT', h.deadline)
end

function foreign.drop(owner)
  local held = foreign.holds(owner)
  if held then delete() end
  if is_others_turn() then
    call_head()
  elseif held then
    courtesy.leave_room()
  end
end

function foreign.stand(w)
  local id = public_owner(w.owner)
  set('g' .. id, w.owner)
  redis.call('RPUSH', queue_key, id)
  head = head or id
  listen_to_more(w.client)
end

function foreign.leave(w)
  local id = public_owner(w.owner)
  if get('g' .. id) then take_out_of_line(id, 1) end
  if value == id then delete() end
  if is_others_turn() then call_head() end
end

function foreign.is_held()
  return value and not is_ours(value)
end

function foreign.evict()
  delete()
  if is_others_turn() then call_head() end
  return 1
end

-- Clients that never wait would give a foreign client that was called a new grace each time.
function foreign.remembers()
  return get('gn')
end

-- Keeps a queue that expires alive: for longer than the pause between two steps of a waiting client.
function foreign.write()
  if queue.count == 0 then return end
  local left = redis.call('PTTL', queue_key)
  if left >= 0 and left < QUEUE_MS / 2 then redis.call('PEXPIREAT', queue_key, now + QUEUE_MS) end
end
