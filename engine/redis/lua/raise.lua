-- Raises the position, if it is the expected one. An entry of its own says so in the stream, from which
-- all before it is removed.
-- KEYS: meta, change, fork. ARGV: 1 position that is expected, 2 the new one, 3 id of the entry, 4 the channel.
local m = redis.call('HMGET', KEYS[1], 'pos', 'replid')
if not m[1] then
  return 'lost'
end
if m[2] ~= string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)') then
  return 'epoch'
end
if m[1] ~= ARGV[1] then
  return 'conflict'
end
local no = refused({
  {'XADD', KEYS[2], ARGV[2] .. '-0', 'p', ''}, {'XTRIM', KEYS[2], 'MINID', '0'}, {'HSET', KEYS[1], 'pos', ''},
  {'DEL', KEYS[3]}, {'PUBLISH', ARGV[4], ''},
})
if no then
  return no
end
redis.call('XADD', KEYS[2], ARGV[2] .. '-0', 'p', m[1], 'i', ARGV[3], 'w', '', 'u', '')
redis.call('XTRIM', KEYS[2], 'MINID', ARGV[2] .. '-0')
redis.call('HSET', KEYS[1], 'pos', ARGV[2])
redis.call('DEL', KEYS[3])
redis.call('PUBLISH', ARGV[4], ARGV[2])
return 'ok'
