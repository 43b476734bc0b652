-- Returns past, then the values of keys.
-- KEYS: meta, change, value. ARGV: the position seen, the keys.
local out = past(KEYS[1], KEYS[2], ARGV[1])
for i = 2, #ARGV do
  out[#out + 1] = redis.call('HGET', KEYS[3], ARGV[i])
end
return out
