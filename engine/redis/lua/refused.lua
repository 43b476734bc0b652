-- refused returns an error if the user may not run one of some commands. One that is refused after others have
-- written would leave half of the work.
local function refused(list)
  for i = 1, #list do
    if not redis.acl_check_cmd(unpack(list[i])) then
      return redis.error_reply('NOPERM the user has no right to ' .. list[i][1] .. ' ' .. list[i][2])
    end
  end
end
