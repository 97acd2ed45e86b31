-- What a once remembers of its work: that it is done, or how often it failed. It is in `work`, which is nil if there
-- is nothing to remember. The functions are in a table, since Lua has room for 200 local variables at a time.

-- How long it is remembered, the offset of a period or -, how many attempts may fail, and the pause after one.
function once.terms(ask)
  return string.match(ask, '^o(%d+)/(%S+)/(%d+)/(%d+)$')
end

-- Remembers what came of an attempt, unless its period is over.
function once.remember(h, ended, what)
  local keep, offset = once.terms(h.ask)
  if offset == '-' then
    what.ends = ended + keep
  elseif h.since < tonumber(offset) then
    what.ends = tonumber(offset)
  else
    what.ends = h.since + keep - (h.since - offset) % keep
  end
  what.failed = what.failed + (work and work.failed or 0)
  work = what.ends > now and what or nil
end

-- An attempt ended without *done*. Its lease may have ended before this step.
function once.note_failure(h)
  local ended = math.min(h.deadline, now)
  if once.terms(h.ask) then once.remember(h, ended, { failed = 1, ended = ended }) end
end

function once.note_done(h, result)
  once.remember(h, now, { failed = 0, token = h.token, at = now, lines = h.label .. '\n' .. result })
end

-- As it is stored and told. The times have fewer digits than Lua prints.
function once.text()
  if not work then return nil end
  if not work.token then return 'A ' .. work.failed .. ' ' .. work.ended .. ' ' .. work.ends end
  return 'E ' .. work.token .. ' ' .. work.at .. ' ' .. work.ends .. ' ' .. work.failed .. '\n' .. work.lines
end

-- What stands between a request and the work, besides a holder; and what the client is told.
function once.bar(ask)
  local keep, _, attempts, pause = once.terms(ask)
  if not (work and keep) then return nil end
  if work.token then return 'done', once.text() end
  attempts = tonumber(attempts)
  if attempts > 0 and work.failed >= attempts then return 'exhausted', 'X exhausted ' .. work.failed end
  if work.ended + pause > now then return 'paused' end
end

-- When the first in line may be granted, if a pause keeps it waiting.
function once.pause_of_head()
  local _, _, _, pause = once.terms(queue.head and work and work.ended and waiter(queue.head).ask or '')
  local ends = pause and work.ended + pause
  return ends and ends > now and ends or nil
end
