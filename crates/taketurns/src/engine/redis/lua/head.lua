-- What every step begins with: the time, what is stored, and whether this script may still speak for
-- the server. No function is made here, nor in the short cuts that follow (*.quick.lua): to make all
-- that the other parts consist of takes longer than most steps.

local key = KEYS[1]
-- Read once: it moves on during a script. `clock` is the text of it, in microseconds.
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
-- If the marker is not the one that this script was made for, the state may have been lost (FLUSHALL, a
-- master that was a replica meanwhile), or somebody knows of a longer lease or a quarantine that we
-- don't, and the client has to look again. Not only for locks that are new here: one that is there may
-- be old. If it can't be read, the client is the one to say why.
if MARK ~= '' and redis.pcall('GET', KEYS[2]) ~= MARK then
  return redis.error_reply('TTVERIFY the marker is not what it was')
end
