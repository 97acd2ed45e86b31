-- The gate of a mutex: one of ours at a time has passed it.
--
--   g         its owner. A holder that is not this one is a native client's, which knows no gate.
--   gw<owner> it waits, and is of a client that speaks the wire

local function comes_by_wire(owner)
  return get('gw' .. owner) == PROTOCOL
end

function gate.blocked(w)
  if is_alien then return true end
  return (w.comes_by_wire or comes_by_wire(w.owner)) and wire.blocked(w.owner, w)
end

local function pass(h)
  if comes_by_wire(h.owner) then del('gw' .. h.owner) end
  set('gp', PROTOCOL)
  set('g', h.owner)
  wire.take(h.owner, h.deadline, h)
end

function gate.take(h)
  if not h.handed or comes_by_wire(h.owner) then pass(h) end
end

function gate.keep(h)
  if get('g') == h.owner then
    wire.keep(h.owner, h.deadline, h)
  elseif comes_by_wire(h.owner) and wire.is_open() then
    -- A native client handed it over, and knew no gate. From now on strangers are kept out.
    pass(h)
  end
end

local function let_go(owner)
  del('g')
  gave_up = true
  wire.drop(owner)
end

function gate.drop(h)
  if is_alien then return end
  if get('g') == h.owner then
    let_go(h.owner)
  elseif comes_by_wire(h.owner) then
    -- A native client handed it over, and knew no gate.
    del('gw' .. h.owner)
    if wire.leave then wire.leave(h.owner) end
  end
end

function gate.stand(w)
  set('gp', PROTOCOL)
  set('gw' .. w.owner, PROTOCOL)
  if wire.stand then wire.stand(w.owner, w.lease, w.client) end
end

function gate.leave(w)
  gave_up = true
  if not comes_by_wire(w.owner) then return end
  del('gw' .. w.owner)
  if wire.leave then wire.leave(w.owner, w) end
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
    wake_revoked(h)
    drop_holder(h)
  end
end

function gate.is_strange()
  return holders.count == 0 and wire.is_strange()
end

function gate.evict()
  wire.evict()
  return 1
end
