-- Returns past, then keys and values of a range, as many as were asked for and fit.
-- KEYS: meta, change, value, order. ARGV: the position seen, the first bound, the last, how
-- many pairs, how many bytes, 1 for descending.
local out = past(KEYS[1], KEYS[2], ARGV[1])
local range = ARGV[6] == '1' and 'ZREVRANGEBYLEX' or 'ZRANGEBYLEX'
local keys = redis.call(range, KEYS[4], ARGV[2], ARGV[3], 'LIMIT', 0, ARGV[4])
local left = tonumber(ARGV[5])
local more = #keys == tonumber(ARGV[4]) and 1 or 0
for i = 1, #keys do
  if left <= 0 then
    more = 1
    break
  end
  local v = redis.call('HGET', KEYS[3], keys[i])
  if not v then
    return redis.error_reply('SKERRYCORRUPT a key of the order has no value')
  end
  out[#out + 1] = keys[i]
  out[#out + 1] = v
  left = left - #keys[i] - #v
end
out[#out + 1] = more
return out
