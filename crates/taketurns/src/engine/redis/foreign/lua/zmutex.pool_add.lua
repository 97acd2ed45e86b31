-- Adding a member, with protocol=zmutex: it is added to the sorted set as well.

function carry_out(request)
  local name = ARGV[1]
  local is_known = get('m' .. name)
  if not is_known and is_full() and (kind == 'p' or not in_use()) then return 'X pool' end
  -- It was to leave when a foreign client releases it, and stays now.
  if is_known and get('gz' .. name) == 'x' then
    set('gz' .. name, '-')
    return 'C 1'
  end
  local reply = request()
  if not is_known and reply == 'C 1' then
    set('gp', PROTOCOL)
    add_to_set(name)
  end
  return reply
end
