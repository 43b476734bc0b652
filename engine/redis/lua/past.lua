-- past returns the position, the time, and what the batches after the position seen
-- replaced: position, base and old values of each. The caller asks again while the last of
-- these is not the position.
local function past(meta, change, seen)
  local m = redis.call('HMGET', meta, 'pos', 'at')
  local undo, size = {}, 0
  local from = seen
  while from ~= '' and from ~= m[1] and #undo < 192 and size < 8388608 do
    local e = redis.call('XRANGE', change, '(' .. from .. '-0', '+', 'COUNT', 1)[1]
    if not e then
      break
    end
    from = string.match(e[1], '^%d+')
    undo[#undo + 1] = from
    undo[#undo + 1] = e[2][2]
    undo[#undo + 1] = e[2][8]
    size = size + #e[2][8]
  end
  return {m[1], m[2], undo}
end
