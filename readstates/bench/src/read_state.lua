-- A user is a hash: a field per channel, "v" for the user's version. A channel is
-- "last message, mention count, version, counted mentions as id:amount ...", the last eight of them.
-- KEYS[1] the user; ARGV: ack or mention, channel, message, amount. 1: applied, 0: known already.
local kind, channel, message = ARGV[1], ARGV[2], ARGV[3]
-- Ids are larger than a number of Lua holds: decimals without leading zeros compare by length, then as text.
local function newer(a, b) return #a > #b or (#a == #b and a > b) end
local state = redis.call('HGET', KEYS[1], channel)
local last, count, counted = '0', 0, ''
if state then
  local l, c, ids = string.match(state, '^(%d+) (%d+) %d+(.*)$')
  last, count, counted = l, tonumber(c), ids
end
if not newer(message, last) then return 0 end
if kind == 'ack' then
  last = message
  if counted ~= '' then
    local oldest, kept, sum = nil, '', 0
    for id, amount in string.gmatch(counted, ' (%d+):(%d+)') do
      if not oldest or newer(oldest, id) then oldest = id end
      if newer(id, message) then
        kept = kept .. ' ' .. id .. ':' .. amount
        sum = sum + tonumber(amount)
      end
    end
    if not newer(oldest, message) then count = sum end
    counted = kept
  else
    count = 0
  end
else
  local ids, amounts = {}, {}
  for id, amount in string.gmatch(counted, ' (%d+):(%d+)') do
    if id == message then return 0 end
    ids[#ids + 1] = id
    amounts[#amounts + 1] = amount
  end
  if #ids == 8 then
    if newer(ids[1], message) then return 0 end
    table.remove(ids, 1)
    table.remove(amounts, 1)
  end
  local place = #ids + 1
  while place > 1 and newer(ids[place - 1], message) do place = place - 1 end
  table.insert(ids, place, message)
  table.insert(amounts, place, ARGV[4])
  counted = ''
  for i = 1, #ids do counted = counted .. ' ' .. ids[i] .. ':' .. amounts[i] end
  count = math.min(count + tonumber(ARGV[4]), 4294967295)
end
local version = redis.call('HINCRBY', KEYS[1], 'v', 1)
redis.call('HSET', KEYS[1], channel, last .. ' ' .. string.format('%.0f', count) .. ' ' .. version .. counted)
return 1
