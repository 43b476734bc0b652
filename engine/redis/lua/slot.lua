-- Commits the writes of one partition, if the keys that were read are as they were.
-- KEYS: the keys that were read or written. ARGV: 1 this commit's stamp of 16 bytes; then two for each key: the
-- stamp that its value must have, '' if there must be none, '*' if that does not matter; and
-- 'r' if it was only read, 'd' to delete it, 'p' and a value, or 'u', milliseconds, a semicolon and a value.
local n = #KEYS
for i = 1, n do
  local kind = string.sub(ARGV[i * 2 + 1], 1, 1)
  if kind == 'p' or kind == 'u' then
    if redis.call('GETRANGE', KEYS[i], 0, 15) == ARGV[1] then
      return {'ok'} -- this commit was sent again
    end
    break
  end
end
for i = 1, n do
  local want = ARGV[i * 2]
  if want ~= '*' and redis.call('GETRANGE', KEYS[i], 0, 15) ~= want then
    return {'conflict', i}
  end
end
local wrote = false
for i = 1, n do
  local w = ARGV[i * 2 + 1]
  local kind = string.sub(w, 1, 1)
  local no = not wrote and kind ~= 'r' and refused({{'SET', KEYS[i], '', 'PXAT', '1'}, {'DEL', KEYS[i]}})
  if no then
    return no
  end
  wrote = wrote or kind ~= 'r'
  if kind == 'd' then
    redis.call('DEL', KEYS[i])
  elseif kind == 'p' then
    redis.call('SET', KEYS[i], ARGV[1] .. string.sub(w, 2))
  elseif kind == 'u' then
    local at = string.match(w, '^u(%d+);')
    redis.call('SET', KEYS[i], ARGV[1] .. string.sub(w, #at + 3), 'PXAT', at)
  end
end
return {'ok'}
