-- The adapter: lets the clients of a foreign protocol and ours exclude each other. A client of ours that is
-- granted the lock takes the keys of that protocol as well, in the same step.
--
-- This file and those that follow it redefine functions of the native parts, which then call the new ones;
-- `native` has the old. Each protocol has a file that fills the table `foreign`:
--
--   load()       reads the foreign keys; answers an error if that fails
--   write()      writes what was put off until the step is done (optional)
--   remembers()  is there something to remember, though no client of ours is here? (optional)
--   is_held()    does a foreign client hold the lock?
--   evict()      takes the lock from foreign clients; answers from how many
--
-- mutex.lua asks for more. Field:
--
--   gp   the protocol of our clients that hold or wait

local native = {
  write = write, is_blank = is_blank, finish = finish, catch_up = catch_up, recheck = recheck,
  fits = fits, grant = grant, renew = renew, drop_holder = drop_holder, stand = stand, leave = leave,
  open_member = open_member, foremost_for = foremost_for,
}
local foreign = {}

-- When a waiter has to ask again, since a foreign client is in its way and may tell nobody.
local ask_again_at
-- Do other clients of ours use the lock with another protocol? Then they don't exclude the foreign clients
-- that we do.
local is_other_protocol
-- Did a client of ours give up the lock, or its place?
local gave_up

-- Asks again after this many milliseconds, or earlier if something else is due.
local function look_in(ms)
  local at = now + ms
  ask_again_at = math.min(at, ask_again_at or at)
end

-- Polls a foreign client that tells nobody: soon at first, then less often (every 200 ms at the slowest, or
-- as is said), with jitter.
local function look_again(since, slowest)
  local pause = math.max(8, math.min(slowest or 200, (now - since) / 4))
  look_in(math.floor(pause / 2 + pause * (now_us % 1000) / 1000))
end

-- The first waiter that is alive. The dead of a pool stay until they are offered something.
local function first_alive()
  local place = queue.head
  for _ = 1, STEP_MAX do
    local w = place and waiter(place)
    if not w or is_live(w.client) then return w end
    place = after(queue, place)
  end
end

function recheck()
  local at = native.recheck()
  if now < quarantine or not ask_again_at then return at end
  return at == '-' and ask_again_at or math.min(at, ask_again_at)
end

function write()
  put('gp', in_use() and get('gp') or nil)
  native.write()
end

function is_blank()
  return native.is_blank() and not (foreign.remembers and foreign.remembers())
end

-- If a client of ours gave up and a foreign client is in the way of the next, that one is told to ask.
function finish(reply)
  if foreign.write then foreign.write() end
  local first = gave_up and ask_again_at and first_alive()
  if first then wakes[#wakes + 1] = { CHANNEL .. first.client, 'stirred ' .. key } end
  return native.finish(reply)
end

-- Carries out a request. The adapter's part for that request, if there is one, redefines it.
local function carry_out(request)
  return request()
end

function step(fields, request)
  load(fields)
  local protocol = get('gp')
  is_other_protocol = protocol and protocol ~= PROTOCOL
  local failed = foreign.load()
  if failed then return failed end
  catch_up()
  settle()
  -- The dead are out of the way now.
  is_other_protocol = is_other_protocol and in_use()
  if is_other_protocol then
    return redis.error_reply('TTWIRE the lock is in use with protocol=' .. protocol)
  end
  local reply = carry_out(request)
  if type(reply) == 'table' then return reply end
  settle()
  return finish(reply)
end
