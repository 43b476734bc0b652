-- Returns the state of the data, after creating it if there is none.
-- KEYS: meta, value, order, change. ARGV: the format, the newest format that is understood.
local replid = string.match(redis.call('INFO', 'replication'), 'master_replid:(%x+)')
local m = redis.call('HMGET', KEYS[1], 'format', 'pos', 'at', 'replid')
if not m[1] then
  if redis.call('EXISTS', KEYS[1], KEYS[2], KEYS[3], KEYS[4]) > 0 or ARGV[1] == '' then
    return {'lost'}
  end
  redis.call('HSET', KEYS[1], 'format', ARGV[1], 'pos', '0', 'at', '0', 'replid', replid)
  m = {ARGV[1], '0', '0', replid}
end
return {'ok', m[1], m[2], m[3], m[4], replid}
