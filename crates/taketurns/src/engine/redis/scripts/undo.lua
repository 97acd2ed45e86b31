-- An undo: forgets that work was done, and how often it failed.

return step({}, function()
  if in_use() and kind ~= 'o' then return kind_mismatch() end
  if not work then return 'C 0' end
  work = nil
  -- The one that did it may send *done* once more.
  mint()
  return 'C 1'
end)
