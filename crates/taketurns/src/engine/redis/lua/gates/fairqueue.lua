-- protocol=fairqueue: `lock:` has the token of the holder, `lock-queue:` the tokens of all waiters, ours
-- among them. A release calls the head of that queue by a push to its `lock-notify:`.
--
-- That is the document. amphp/redis, the library that people have, differs. Its clients stand in the queue
-- from their first look on, poll every 15 ms or less often, neither make nor hear calls, and let the queue
-- expire. So they are polled instead of waited for, they need no courtesy, and the queue is kept alive while
-- one of ours waits. Their tokens are 16 random bytes in base64. They are called all the same: a client that
-- follows the document may have such a token.
--
--   g<id>   the owner of ours that waits under this id
--   gn      "since id": which stranger at the head was called, and when

local lock_key, queue_key = KEYS[#KEYS - 1], KEYS[#KEYS]
local value, head

-- Who lives is blocked until it is called, and comes at once. Who has not come by then is gone.
local GRACE = 1000
-- How long a queue that expires lives on while one of ours waits.
local QUEUE_MS = 60000
-- How often a holder that calls nobody is looked at, at the slowest.
local POLL_MS = 40

local function is_amphp(id)
  return #id == 24 and string.find(id, '^[%w+/]+==$') ~= nil
end

local function calls_of(id)
  return 'lock-notify:' .. id
end

function wire.load()
  value = redis.pcall('GET', lock_key)
  if type(value) == 'table' then return unreadable('a string', value) end
  head = redis.pcall('LINDEX', queue_key, 0)
  if type(head) == 'table' then return unreadable('a list', head) end
end

function wire.holds(owner)
  return value == wire_id(owner)
end

-- Is that one of ours who waits? Not one that a native client took for dead, and left there.
local function is_ours(id)
  local owner = #id == 40 and get('g' .. id)
  return owner and (holder_of(owner) or place_of(owner))
end

local function is_strangers_turn()
  return not value and head and not is_ours(head)
end

-- Calls the stranger at the head, once. It is not promoted: by the letter one that is deletes the call
-- and waits for the end of its own lock. Answers since when it has been called; if nobody has looked
-- for long, that may have been for another turn of the same one.
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

-- Takes an id out of the queue, once or wherever it is (0), and what it was called by.
local function take_out_of_line(id, times)
  redis.call('LREM', queue_key, times, id)
  redis.call('DEL', calls_of(id))
  if #id == 40 and get('g' .. id) then del('g' .. id) end
  head = redis.call('LINDEX', queue_key, 0)
end

-- Puts those of ours back that the queue has lost: the first, if a stranger promoted it and it could not be
-- granted the lock in time (there was a quarantine, or it was late); and all, if the queue has expired.
-- They came before all who are in it now.
local function stand_again()
  local lost, place = {}, queue.head
  for _ = 1, STEP_MAX do
    local id = place and wire_id(waiter(place).owner)
    if not id or redis.call('LPOS', queue_key, id) then break end
    -- A native client has no place there.
    if get('g' .. id) and value ~= id then lost[#lost + 1] = id end
    place = after(queue, place)
  end
  for i = #lost, 1, -1 do redis.call('LPUSH', queue_key, lost[i]) end
  head = lost[1] or head
end

-- Notes that strangers are here who see the lock only while it is free.
local function note(id)
  if id and not is_amphp(id) and not is_ours(id) then stranger_came() end
end

function wire.blocked()
  stand_again()
  if value then
    -- A stranger has promoted the first. By the document it is the last in line now.
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
  while is_strangers_turn() do
    note(head)
    local called = call_head()
    if now < called + GRACE then
      if is_amphp(head) then look_again(called, POLL_MS) end
      look_in(called + GRACE - now)
      return true
    end
    take_out_of_line(head, 0)
  end
  return is_left_to_others()
end

-- May one of ours pass that holds already?
function wire.is_open()
  return not value or is_ours(value)
end

function wire.take(owner, deadline)
  local id = wire_id(owner)
  if get('g' .. id) then take_out_of_line(id, 1) end
  forget_call()
  value = id
  redis.call('SET', lock_key, value, 'PXAT', deadline)
end

function wire.keep(_, deadline)
  redis.call('PEXPIREAT', lock_key, deadline)
end

local function open()
  redis.call('DEL', lock_key)
  value = false
end

function wire.drop(owner)
  local held = wire.holds(owner)
  if held then open() end
  if is_strangers_turn() then
    call_head()
  elseif held then
    leave_room()
  end
end

function wire.stand(owner, _, client)
  local id = wire_id(owner)
  set('g' .. id, owner)
  redis.call('RPUSH', queue_key, id)
  head = head or id
  listen_to_more(client)
end

function wire.leave(owner)
  local id = wire_id(owner)
  if get('g' .. id) then take_out_of_line(id, 1) end
  if value == id then open() end
  if is_strangers_turn() then call_head() end
end

function wire.is_strange()
  return value and not is_ours(value)
end

function wire.evict()
  open()
  if is_strangers_turn() then call_head() end
end

-- Those who only try would never see a stranger out.
function wire.remembers()
  return get('gn')
end

-- What expires is longer-lived than the pause between two steps of a client that waits.
function wire.write()
  if queue.count == 0 then return end
  local left = redis.call('PTTL', queue_key)
  if left >= 0 and left < QUEUE_MS / 2 then redis.call('PEXPIREAT', queue_key, now + QUEUE_MS) end
end
