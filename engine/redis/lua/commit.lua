-- Commits one batch, if its base is the newest position. One entry of the stream has all its
-- changes, and what they replaced.
-- KEYS: meta, value, order, change, turn, mark. ARGV: 1 base, 2 new position, 3 new time,
-- 4 id of the batch, 5 who commits, 6 the changes, 7 where in them each key's last write is,
-- 8 channel, 9 bytes between marks, 10 how many marks are kept, 11 how many bytes may be replaced.
local m = redis.call('HMGET', KEYS[1], 'pos', 'at', 'replid', 'bytes')
if not m[1] then
  return {'lost'}
end
if m[3] ~= string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') then
  return {'epoch'}
end
if m[1] ~= ARGV[1] then
  return {'conflict', m[1], m[2]}
end
local turn = redis.call('GET', KEYS[5])
if turn and turn ~= ARGV[5] then
  return {'turn', m[1], m[2]}
end

-- From the first write on nothing may fail: not because a right is missing, and not because
-- another program has put something else in place of one of the keys.
local no = refused({
  {'XADD', KEYS[4], ARGV[2] .. '-0', 'p', ''}, {'HSET', KEYS[1], 'pos', ''}, {'HSET', KEYS[2], 'k', ''},
  {'ZADD', KEYS[3], '0', 'k'}, {'HDEL', KEYS[2], 'k'}, {'ZREM', KEYS[3], 'k'}, {'LLEN', KEYS[6]}, {'RPUSH', KEYS[6], ''},
  {'LPOP', KEYS[6]}, {'XTRIM', KEYS[4], 'MINID', '0'}, {'DEL', KEYS[5]}, {'PUBLISH', ARGV[8], ''},
})
if no then
  return no
end
redis.call('ZRANGEBYLEX', KEYS[3], '-', '-', 'LIMIT', 0, 0)
redis.call('XRANGE', KEYS[4], '+', '-', 'COUNT', 1)
redis.call('LLEN', KEYS[6])

local w, index = ARGV[6], ARGV[7]
local n, none = #index / 16, 4294967295
local keys, vals, olds, undo = {}, {}, {}, {}
for i = 1, n do
  local ko, kl, vo, vl = struct.unpack('>I4I4I4I4', index, i * 16 - 15)
  keys[i] = string.sub(w, ko + 1, ko + kl)
  vals[i] = vl ~= none and string.sub(w, vo + 1, vo + vl)
end
local left = tonumber(ARGV[11])
for i = 1, n, 64 do
  local old = redis.call('HMGET', KEYS[2], unpack(keys, i, math.min(i + 63, n)))
  for j = 1, #old do
    olds[i + j - 1] = old[j]
    left = left - (old[j] and #old[j] or 0)
  end
  if left < 0 then
    return {'large'}
  end
end
local size = #w + 100
for i = 1, n do
  local old = olds[i]
  undo[#undo + 1] = struct.pack('>I4', #keys[i])
  undo[#undo + 1] = keys[i]
  undo[#undo + 1] = struct.pack('>I4', old and #old or none)
  undo[#undo + 1] = old or ''
  size = size + #keys[i] + (old and #old or 0)
end

local all = {{'XADD', KEYS[4], ARGV[2] .. '-0', 'p', ARGV[1], 'i', ARGV[4], 'w', w, 'u', table.concat(undo)}}
local open = {}
local function add(cmd, key, a, b)
  local c = open[cmd]
  if not c or #c > 2000 then
    c = {cmd, key}
    open[cmd], all[#all + 1] = c, c
  end
  c[#c + 1] = a
  c[#c + 1] = b
end
for i = 1, n do
  if vals[i] then
    add('HSET', KEYS[2], keys[i], vals[i])
    if not olds[i] then
      add('ZADD', KEYS[3], '0', keys[i])
    end
  elseif olds[i] then
    add('HDEL', KEYS[2], keys[i])
    add('ZREM', KEYS[3], keys[i])
  end
end
for i = 1, #all do
  redis.call(unpack(all[i]))
end

local total, unit, keep = tonumber(m[4] or '0') + size, tonumber(ARGV[9]), tonumber(ARGV[10])
redis.call('HSET', KEYS[1], 'pos', ARGV[2], 'at', ARGV[3], 'bytes', string.format('%.0f', total))
local crossed = math.floor(total / unit) - math.floor((total - size) / unit)
if crossed > 0 then
  for _ = 1, math.min(crossed, keep) do
    redis.call('RPUSH', KEYS[6], ARGV[2])
  end
  local old
  for _ = 1, redis.call('LLEN', KEYS[6]) - keep do
    old = redis.call('LPOP', KEYS[6])
  end
  if old then
    redis.call('XTRIM', KEYS[4], 'MINID', old .. '-0')
  end
end
if turn then
  redis.call('DEL', KEYS[5])
end
redis.call('PUBLISH', ARGV[8], ARGV[2])
return {'ok'}
