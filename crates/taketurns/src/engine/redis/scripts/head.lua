-- The beginning of every step: reads the time and the head of the lock, and checks the marker. Neither this
-- part nor a short cut (*.quick.lua) creates a function: creating those of the other parts takes longer than
-- most steps.

local key = KEYS[1]
-- Read once, since time moves on during a script. `clock` is its text, in microseconds.
local now_us = tonumber(clock)
local now = (now_us - now_us % 1000) / 1000

local head = redis.call('HGET', key, 's')
local seen, last_token, expires, quarantine, count, weight, first, last, waiting, buried = 0, 0, 0, 0, 0,
  0, 0, 0, 0, 0
local kind, run, head_end = 'm', RUN, 1
local is_foreign
if not head then
  is_foreign = redis.call('HLEN', key) > 0
elseif #head < HEAD_MIN then
  is_foreign = true
else
  seen, last_token, expires, quarantine, count, weight, first, last, waiting, buried, kind, run, head_end =
    struct.unpack(HEAD, head)
end
if is_foreign then return redis.error_reply('WRONGTYPE this hash is no lock') end
-- If the marker is not the one that this script was made for, state may have been lost (FLUSHALL, a master
-- that was a replica meanwhile), or there is a longer lease or a quarantine that this client does not know.
-- It has to look again, also for a lock that is stored here: that may be old. If the marker can't be read,
-- the client says why.
if MARK ~= '' and redis.pcall('GET', KEYS[2]) ~= MARK then
  return redis.error_reply('TTVERIFY the marker is not what it was')
end
