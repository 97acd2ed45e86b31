-- The gate of a mutex: one of ours at a time has passed it.
--
--   g    its owner. A holder that is not this one is a native client's, which knows no gate.

function gate.blocked(w)
  return is_alien or wire.blocked(w.owner)
end

function gate.take(h)
  set('g', h.owner)
  wire.take(h.owner, h.deadline)
end

function gate.keep(h)
  if get('g') == h.owner then wire.keep(h.owner, h.deadline) end
end

local function let_go(owner)
  del('g')
  gave_up = true
  wire.drop(owner)
end

function gate.drop(h)
  if not is_alien and get('g') == h.owner then let_go(h.owner) end
end

function gate.stand(w)
  if wire.stand then wire.stand(w.owner, w.lease) end
end

function gate.leave(w)
  if not is_alien and wire.leave then wire.leave(w.owner) end
end

-- Is the one that passed still what the wire says?
function gate.catch_up()
  local owner = get('g')
  if is_alien or not owner then return end
  local h = holder_of(owner)
  if not h then
    -- Given back by one who knows no gate.
    let_go(owner)
  elseif not wire.holds(owner) then
    wake(h.client, h.owner, 'V')
    drop_holder(h)
  end
end

function gate.evict()
  return wire.evict() and 1 or 0
end
