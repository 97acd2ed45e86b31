-- Is this a lock, and has the server forgotten nothing?

local is_foreign
if head then
  is_foreign = #head < HOLDER - 1
else
  is_foreign = call('HLEN', key) > 0
end
if is_foreign then return redis.error_reply('WRONGTYPE this hash is no lock') end
-- If the marker is not the one that this script was made for, state may have been lost (FLUSHALL, a master
-- that was a replica meanwhile), or there is a longer lease or a quarantine that this client does not know.
-- It has to look again, also for a lock that is stored here: that may be old. If the marker can't be read,
-- the client says why.
if MARK ~= '' and redis.pcall('GET', KEYS[2]) ~= MARK then
  return redis.error_reply('TTVERIFY the marker is not what it was')
end
local is_new = not head
if is_new then head = NEW end
local now_us = clock + 0
local now = (now_us - now_us % 1000) / 1000

