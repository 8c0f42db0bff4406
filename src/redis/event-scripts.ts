// Every script composes its keys from `KEYS[1]`, so that a cluster keeps them on one node.

/** Runs commands, whose first keys follow the base, and returns their replies. Argument: the commands as JSON. */
export const BATCH = `local replies = {}
for index, command in ipairs(cjson.decode(ARGV[1])) do
  command[2] = KEYS[1] .. command[2]
  replies[index] = redis.call(unpack(command))
end
return replies`

/**
 * Arguments: id, whether it has a webhook, owner, event type, record, time to live, time, position, the maximum of the owner and of all, and an id of the
 * call, with which a client repeats it if the reply was lost. Returns `new`, `renewed`, or what is full: `owner` or `all`.
 */
export const SUBSCRIBE = `local base, id, kind, owner, type, ttl, now = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6] + 0, ARGV[7]
local sub, own, all, most = base .. 'sub:' .. id, base .. 'own:' .. kind .. ':' .. owner, base .. 'all', base .. 'most'
local keys = { own, base .. 'type:' .. kind .. ':' .. type, all, most }
local since, made = unpack(redis.call('HMGET', sub, 'since', 'made'))
if not since then
  for i = 1, 3 do redis.call('ZREMRANGEBYSCORE', keys[i], '-inf', now) end
  if redis.call('ZCARD', own) >= tonumber(ARGV[9]) then return 'owner' end
  if redis.call('ZCARD', all) >= tonumber(ARGV[10]) then return 'all' end
  since, made = ARGV[8], ARGV[11]
  redis.call('DEL', base .. 'status:' .. id, base .. 'pend:' .. id)
end
redis.call('HSET', sub, 'record', ARGV[5], 'since', since, 'made', made, 'expiresAt', now + ttl)
redis.call('PEXPIRE', sub, ttl)
for i = 1, 3 do redis.call('ZADD', keys[i], now + ttl, table.concat({ id, owner, since, type }, ' ')) end
if kind == 'false' then redis.call('ZADD', most, redis.call('ZCARD', own), owner) end
redis.call('ZREMRANGEBYRANK', most, 0, -1 - ARGV[10])
for _, key in ipairs(keys) do
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end
return made == ARGV[11] and 'new' or 'renewed'`

/** Arguments: event type, first position, time, event, maximum bytes, maximum age, life of an empty log. Returns the position. */
export const APPEND = `local log, meta, now = KEYS[1] .. 'log:' .. ARGV[1], KEYS[1] .. 'meta:' .. ARGV[1], ARGV[3]
redis.call('HSETNX', meta, 'head', ARGV[2])
if redis.call('EXISTS', log) == 0 then redis.call('HSET', meta, 'bytes', 0) end
redis.call('HINCRBY', meta, 'head', 1)
local head, bytes = redis.call('HGET', meta, 'head'), redis.call('HINCRBY', meta, 'bytes', #ARGV[4])
redis.call('XADD', log, head .. '-0', 'at', now, 'event', ARGV[4])
for _ = 1, 100 do
  local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  if not first or (bytes <= tonumber(ARGV[5]) and tonumber(first[2][2]) > now - ARGV[6]) then break end
  bytes = redis.call('HINCRBY', meta, 'bytes', -#first[2][4])
  redis.call('XDEL', log, first[1])
end
redis.call('PEXPIRE', log, ARGV[6])
redis.call('PEXPIRE', meta, ARGV[7])
return head`

/**
 * Arguments: owner, subscription as `id.since`, position, bytes, time, maximum number and bytes, life. Returns how many wait, and what
 * was dropped, as `subscription position bytes`. A client repeats it if the reply was lost.
 */
export const WAIT = `local wait, bytes, pend = KEYS[1] .. 'wait:' .. ARGV[1], KEYS[1] .. 'bytes:' .. ARGV[1], KEYS[1] .. 'pend:'
if redis.call('ZADD', wait, 'NX', ARGV[5], table.concat(ARGV, ' ', 2, 4)) == 0 then return { redis.call('ZCARD', wait) } end
local own = pend .. string.match(ARGV[2], '[^.]+')
redis.call('ZADD', own, ARGV[3], ARGV[3])
local all, reply = redis.call('INCRBY', bytes, ARGV[4]), { redis.call('ZCARD', wait) }
while redis.call('ZCARD', wait) > tonumber(ARGV[6]) or all > tonumber(ARGV[7]) do
  local oldest = redis.call('ZPOPMIN', wait)[1]
  local id, position, size = string.match(oldest, '([^.]+)%S+ (%S+) (%S+)')
  all = redis.call('DECRBY', bytes, size)
  redis.call('ZREM', pend .. id, position)
  reply[#reply + 1] = oldest
end
for _, key in ipairs({ wait, bytes, own }) do redis.call('PEXPIRE', key, ARGV[8]) end
return reply`

/** Arguments: owner, subscription, position, bytes. */
export const DONE = `if redis.call('ZREM', KEYS[1] .. 'wait:' .. ARGV[1], table.concat(ARGV, ' ', 2, 4)) == 0 then return 0 end
redis.call('DECRBY', KEYS[1] .. 'bytes:' .. ARGV[1], ARGV[4])
return redis.call('ZREM', KEYS[1] .. 'pend:' .. string.match(ARGV[2], '[^.]+'), ARGV[3])`
