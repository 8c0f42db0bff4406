/**
 * The beginning of each Lua script of `redisEventStore`. All keys begin with `KEYS[1]`, which is a hash tag, so that a cluster keeps
 * them on one node. The first three arguments are the limits.
 *
 * | Key | Type | Content |
 * |---|---|---|
 * | `head` | counter | the newest position |
 * | `sub:<id>` | hash | a subscription |
 * | `expiry` | sorted set | subscriptions by their end |
 * | `subs:<name>` | sorted set | the subscriptions of an event type by their position |
 * | `group:<1 or 0>:<owner>` | sorted set | the subscriptions of an owner with or without a webhook, by their renewal |
 * | `bytes:<owner>` | counter | the size of the subscriptions and deliveries of an owner |
 * | `evt:<position>` | hash | an event, which is kept as long as the log or a delivery refers to it |
 * | `log:<name>`, `chan:<name>:<channel>` | sorted set | the events of an event type, and of one channel, by position |
 * | `logs` | sorted set | the event types with a log by the time of their oldest event |
 * | `logbytes`, `dropped` | hash | by event type: the size of its log, and the highest position that was dropped |
 * | `dl:<id>` | hash | a delivery |
 * | `pend:<subscription>` | sorted set | its pending event deliveries by position |
 * | `last:<subscription>` | string | its pending `terminated` delivery |
 * | `due:<owner> <host>` | sorted set | a lane: the deliveries of an owner to a host by the time at which they are due |
 * | `lanes` | sorted set | the lanes by the time of their next turn |
 * | `ver:<owner>` | sorted set | hashes of the verified URLs of an owner by the end of the verification |
 */
export const PRELUDE: string = `
local P = KEYS[1] .. ':'
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local MAX_LOG, MAX_AGE, MAX_OWNER = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local ENTRY = 512
local function call(...) return redis.call(...) end
local function int(value) return string.format('%.0f', value) end

local function spend(owner, bytes)
  if call('INCRBY', P .. 'bytes:' .. owner, int(bytes)) <= 0 then call('DEL', P .. 'bytes:' .. owner) end
end
local function spent(owner) return tonumber(call('GET', P .. 'bytes:' .. owner) or 0) end

local function release(position)
  if call('HINCRBY', P .. 'evt:' .. position, 'refs', -1) <= 0 then call('DEL', P .. 'evt:' .. position) end
end

local function schedule(lane)
  local first = call('ZRANGE', P .. 'due:' .. lane, 0, 0, 'WITHSCORES')
  if not first[1] then return call('ZREM', P .. 'lanes', lane) end
  local at = tonumber(first[2])
  if at <= now then
    local turn = call('ZSCORE', P .. 'lanes', lane)
    if turn and tonumber(turn) <= now then return end
    at = now
  end
  call('ZADD', P .. 'lanes', int(at), lane)
end

local function due(owner, host, id, at)
  local lane = owner .. ' ' .. host
  call('ZADD', P .. 'due:' .. lane, int(at), id)
  schedule(lane)
end

local function add(id, kind, sub, owner, host, position, bytes, ...)
  call('HSET', P .. 'dl:' .. id, 'kind', kind, 'sub', sub, 'owner', owner, 'host', host, 'position', position, 'bytes', int(bytes),
    'attempts', 0, 'addedAt', int(now), 'lease', '', ...)
  spend(owner, bytes)
  due(owner, host, id, now)
end

local function drop(id)
  local d = call('HMGET', P .. 'dl:' .. id, 'owner', 'sub', 'kind', 'position', 'bytes', 'host')
  if not d[1] then return end
  call('DEL', P .. 'dl:' .. id)
  local lane = d[1] .. ' ' .. d[6]
  call('ZREM', P .. 'due:' .. lane, id)
  schedule(lane)
  spend(d[1], -d[5])
  if d[3] == 'event' then
    call('ZREM', P .. 'pend:' .. d[2], id)
    release(d[4])
  elseif d[3] == 'gap' then call('HDEL', P .. 'sub:' .. d[2], 'gap')
  else call('DEL', P .. 'last:' .. d[2]) end
end

local function finish(id, terminated)
  local key = P .. 'sub:' .. id
  local s = call('HMGET', key, 'owner', 'name', 'webhook', 'bytes', 'gap', 'record', 'since', 'expiresAt', 'host')
  for _, pending in ipairs(call('ZRANGE', P .. 'pend:' .. id, 0, -1)) do drop(pending) end
  if s[5] then drop(s[5]) end
  call('DEL', key)
  call('ZREM', P .. 'expiry', id)
  call('ZREM', P .. 'subs:' .. s[2], id)
  call('ZREM', P .. 'group:' .. s[3] .. ':' .. s[1], id)
  spend(s[1], -s[4])
  if terminated == '' or s[3] ~= '1' then return end
  local last = 'end.' .. call('INCR', P .. 'head') .. '.' .. id
  call('SET', P .. 'last:' .. id, last)
  add(last, 'terminated', id, s[1], s[9], 0, #terminated + tonumber(s[4]), 'body', terminated, 'record', s[6], 'since', s[7], 'expiresAt', s[8])
end

local function live(id)
  local s = call('HMGET', P .. 'sub:' .. id, 'expiresAt', 'owner', 'webhook', 'gap', 'bytes', 'name', 'host')
  if not s[1] then return nil end
  if tonumber(s[1]) > now then return s end
  finish(id, '')
  return nil
end

local function gap(id, owner, host)
  if call('HEXISTS', P .. 'sub:' .. id, 'gap') == 1 then return end
  local delivery = 'gap.' .. call('INCR', P .. 'head') .. '.' .. id
  call('HSET', P .. 'sub:' .. id, 'gap', delivery)
  add(delivery, 'gap', id, owner, host, 0, ENTRY)
end

local function deliver(position, size, ids, dropped)
  for _, id in ipairs(ids) do
    local s = live(id)
    local delivery = position .. '.' .. id
    if s and s[3] == '1' and call('EXISTS', P .. 'dl:' .. delivery) == 0 then
      if spent(s[2]) + size + ENTRY <= MAX_OWNER then
        call('HINCRBY', P .. 'evt:' .. position, 'refs', 1)
        call('ZADD', P .. 'pend:' .. id, position, delivery)
        add(delivery, 'event', id, s[2], s[7], position, size + ENTRY)
      else
        dropped[#dropped + 1] = id
        gap(id, s[2], s[7])
      end
    end
  end
end

local function trim(name)
  local log = P .. 'log:' .. name
  for _ = 1, 1000 do
    local first = call('ZRANGE', log, 0, 0)[1]
    if not first then
      call('ZREM', P .. 'logs', name)
      call('HDEL', P .. 'logbytes', name)
      return
    end
    local e = call('HMGET', P .. 'evt:' .. first, 'at', 'channels', 'size')
    if tonumber(call('HGET', P .. 'logbytes', name)) <= MAX_LOG and tonumber(e[1]) > now - MAX_AGE then
      call('ZADD', P .. 'logs', e[1], name)
      return
    end
    call('ZREM', log, first)
    for _, channel in ipairs(cjson.decode(e[2])) do call('ZREM', P .. 'chan:' .. name .. ':' .. channel, first) end
    call('HINCRBY', P .. 'logbytes', name, -e[3])
    call('HSET', P .. 'dropped', name, first)
    release(first)
  end
end

local function sweep()
  for _, id in ipairs(call('ZRANGEBYSCORE', P .. 'expiry', '-inf', int(now), 'LIMIT', 0, 10)) do finish(id, '') end
  local old = call('ZRANGEBYSCORE', P .. 'logs', '-inf', int(now - MAX_AGE), 'LIMIT', 0, 1)[1]
  if old then trim(old) end
end

local function head() return call('GET', P .. 'head') or '0' end

local function show(into, id)
  local s = call('HMGET', P .. 'sub:' .. id, 'record', 'since', 'expiresAt', 'lastDeliveryAt', 'lastError', 'failedSince')
  local first = call('ZRANGE', P .. 'pend:' .. id, 0, 0, 'WITHSCORES')[2]
  for index = 1, 6 do into[#into + 1] = s[index] or '' end
  into[#into + 1] = first or ''
end
`
