-- Removing a member, with protocol=zmutex: it is removed from the sorted set as well. A member that a foreign
-- client holds leaves when the time of that client is over.

function carry_out(request)
  local name = ARGV[1]
  if is_free(name) then
    if get('gz' .. name) == 'x' then return 'C 0' end
    if is_fresh(name) then
      set('gz' .. name, 'x')
      return 'C 1'
    end
    remove_from_set(name)
    del('gz' .. name)
  end
  return request()
end
