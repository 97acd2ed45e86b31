-- The time, read once, since time moves on during a script: in microseconds, in 17 digits.
local time = call('TIME')
local seconds, micros = time[1], time[2]
local clock = '0' .. seconds .. (#micros == 6 and micros or sub('000000' .. micros, -6))
if #clock ~= 17 then clock = sub('00000000000' .. clock, -17) end

