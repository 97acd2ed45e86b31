-- protocol=fairqueue: `lock:` has the token of whoever holds it, `lock-queue:` those of all who wait, ours
-- among them; and who lets go calls the head of that queue, by a push to its `lock-notify:`.
--
--   g<id>   the owner of ours that waits under this id
--   gn      "since id": which stranger at the head was called, and when

local lock_key, queue_key = KEYS[#KEYS - 1], KEYS[#KEYS]
local value, head

-- Who lives is blocked until it is called, and comes at once. Who has not come by then is gone.
local GRACE = 1000
-- A stranger that lets go calls us. Should that get lost, it is found out so much later.
local LOOK = 1000
-- Nobody may be left to clear away what was not heard.
local CALL_MS = 10000

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

-- Something for whoever listens there, unless it has yet to hear what was said before. The step is done
-- whatever stands at that key.
local function say(list)
  if redis.pcall('LLEN', list) == 0 then
    redis.pcall('RPUSH', list, '1')
    redis.pcall('PEXPIREAT', list, now + CALL_MS)
  end
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
  say(calls_of(head))
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

local function look_in(ms)
  local at = now + ms
  gate.recheck = math.min(at, gate.recheck or at)
end

-- One that was promoted by a stranger, and could not be granted it in time (there was a quarantine, or it
-- was late), is in no line any more. It was the first.
local function stand_again(owner)
  local id = wire_id(owner)
  if get('g' .. id) and not redis.call('LPOS', queue_key, id) then
    redis.call('LPUSH', queue_key, id)
    head = id
  end
end

function wire.blocked(owner)
  if value then
    stranger_came()
    -- A stranger has promoted whoever was first in line.
    if is_ours(value) then return false end
    forget_call()
    seen_since(redis.sha1hex(value))
    local left = redis.call('PTTL', lock_key)
    look_in(left >= 0 and left < LOOK and left + 1 or LOOK * 3 / 4 + now_us % (LOOK / 2))
    return true
  end
  if is_strangers_turn() then stand_again(owner) end
  while is_strangers_turn() do
    stranger_came()
    local due = call_head() + GRACE
    if now < due then
      look_in(due - now)
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
  -- It has to listen to one more.
  say(CHANNEL .. '\1' .. client)
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
