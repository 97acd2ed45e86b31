-- A view, on a foreign protocol: what the protocol's file found, in the form in which our own are stored.

local failed = find_holders()
-- A lock of ours is shown, whatever else has its name.
if failed and not meta.run then return failed end
if failed then find_waiters = nil end
-- A lock that only foreign clients use has no state of ours.
if not meta.run and #foreign_holders + (find_waiters and find_waiters(1) or 0) > 0 then
  meta.run, meta.kind = RUN, KIND
end

function list_holders()
  local holders = native.list_holders()
  for _, it in ipairs(foreign_holders) do
    -- Its token, owner and client are unknown: zeros.
    holders[#holders + 1] = string.format('00%017d%014.0f%014.0f000%08d%048d', 0,
      now + (it.left or LEASE_MAX), it.since or now, LEASE_MAX, 0)
      .. (it.member and 'n' .. it.member or 'm') .. '\na foreign client\nprotocol=' .. PROTOCOL
      .. (it.member and '\n' .. it.member .. '\n' or '')
    holders[#holders + 1] = false
  end
  return holders
end

-- Puts foreign waiters between ours.
function list_waiters(max)
  local count, waiters = native.list_waiters(max)
  if not find_waiters then return count, waiters end
  local all, ours = {}, 1
  local total, line = find_waiters(max)
  for _, is_foreign in ipairs(line) do
    if is_foreign then
      count = count + 1
      all[#all + 1] = string.format('%014.0f000%056d', now, 0) .. 'm\na foreign client\nprotocol=' .. PROTOCOL
      all[#all + 1] = now + LEASE_MAX .. ' ' .. LEASE_MAX .. ' 1 ' .. string.match(meta.era or '0', '^%d+')
    elseif waiters[ours] then
      all[#all + 1] = waiters[ours]
      all[#all + 1] = waiters[ours + 1]
      ours = ours + 2
    end
  end
  for i = ours, #waiters do all[#all + 1] = waiters[i] end
  for i = #all, 2 * max + 1, -1 do all[i] = nil end
  -- Whose the others are is not known.
  return math.max(count, total), all
end
