-- The beginning of every step: reads the time and the head of the lock, checks the marker, and says whether a
-- short cut (*.quick.lua) may be taken. Neither this part nor a short cut creates a function: creating those of
-- the other parts takes longer than most steps.
--
-- How a lock is stored: the fields of its hash. One key has one slot, and migrates whole. What every step
-- changes is in one field, since each takes time to write.
--
--   s        the head, see HEAD below: in binary, since to print and parse numbers takes a tenth of a step.
--            After it comes the holder in slot 1, if there is one.
--   e        era: "number began"     a clock set back begins a new one
--   h<slot>  a holder, from the second slot on. Its first line has two flags (handed, revoked) and the
--            owner; its second is empty or, if it is a vote of a quorum's node, "number ticket"
--   o<owner> where an owner is, but for the one in slot 1: h<slot> or w<place>
--   q        queue: "count head tail next sweep", the list being in the order of the places
--   w<place> a waiter; the place is its number, or "ticket.owner" if it was asked for with a ballot
--   c<client> "deadline waiter-lease waiting era [handed owners]"
--   l        the line of those who take any member of a pool: "head tail"
--   l<name>  the line of those who want this member
--   m        members: "count head tail next offer", the list being that of the free ones
--   m<name>  a member: f<number> free, h held, l held and leaving
--   f<number> which member that is
--   d        tombs: "first next"     t<number>  its owner       b<owner>  until when
--   g…       what the adapter of a foreign protocol remembers, see there
--   >q<n> <q<n> >l<n> <l<n> >f<n> <f<n>          links of the lists: all places, lines, free members
--
-- Names and labels have no control characters, so a newline parts the values of holders and waiters.
--
-- The head: the time of the last step, the last token, when the key expires (0: never), until when nothing
-- is granted (quarantine), the number of holders and their weight, bounds of when their leases end, how many
-- wait, how many are buried; then the kind (m mutex, r read-write lock, s<permits> semaphore, p pool) and the
-- server's run_id at the last step, each ended by a zero. HEAD is its format, for `struct`.

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

-- May a short cut be taken? Only if there is nothing to catch up with: clock and server are as they were, nothing is
-- in quarantine or buried, and no lease has ended. A short cut does what the parts below would do, in the most
-- frequent cases. In all others it sets no answer and writes nothing.
local is_calm = run == RUN and kind ~= 'p' and buried == 0 and quarantine <= now and seen <= now
  and now >= UNTIL and (count == 0 or first > now)

local now_text = string.sub(clock, 1, -4)
-- What a short cut answers, the first holder then, the fields it writes and deletes besides, whom it wakes.
local answer, holder1, more_fields, gone_fields, wake_channel, wake_text
