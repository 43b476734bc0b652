-- Begins a new epoch, if nobody else has.
-- KEYS: meta, change, turn, fork. ARGV: position and replication id that are expected, the
-- new ones, the new epoch, the channel.
local m = redis.call('HMGET', KEYS[1], 'pos', 'replid')
if m[1] ~= ARGV[1] or m[2] ~= ARGV[2] then
  return 0
end
redis.call('HGET', KEYS[4], ARGV[5]) -- fails now, not later, if this is no hash
local no = refused({
  {'XADD', KEYS[2], ARGV[3] .. '-0', 'p', ''}, {'HSET', KEYS[1], 'pos', ''}, {'HSET', KEYS[4], ARGV[5], ''},
  {'DEL', KEYS[3]}, {'PUBLISH', ARGV[6], ''},
})
if no then
  return no
end
redis.call('XADD', KEYS[2], ARGV[3] .. '-0', 'p', m[1], 'i', '', 'w', '', 'u', '')
redis.call('HSET', KEYS[1], 'pos', ARGV[3], 'replid', ARGV[4])
redis.call('HSET', KEYS[4], ARGV[5], m[1])
redis.call('DEL', KEYS[3])
redis.call('PUBLISH', ARGV[6], ARGV[3])
return 1
