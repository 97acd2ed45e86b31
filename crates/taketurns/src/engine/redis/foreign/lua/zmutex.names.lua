-- Which members of a sorted set are names. Foreign clients may have put anything there, and what is no name is
-- left alone.

local function is_name(text)
  if #text > NAME_MAX then return false end
  if string.find(text, '^[ -~]+$') then return true end
  if #text == 0 or string.find(text, '%c') then return false end
  for _, wrong in ipairs({ '\194[\128-\159]', '\224[\128-\159]', '\237[\160-\191]', '\240[\128-\143]',
    '\244[\144-\191]' }) do
    if string.find(text, wrong) then return false end
  end
  local more = '[\128-\191]'
  text = string.gsub(text, '[\194-\223]' .. more, '?')
  text = string.gsub(text, '[\224-\239]' .. more .. more, '?')
  text = string.gsub(text, '[\240-\244]' .. more .. more .. more, '?')
  return not string.find(text, '[\128-\255]')
end
