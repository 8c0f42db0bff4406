import { PRELUDE } from './event-script-functions.ts'

/** Arguments: id, owner, name, `1` with a webhook, record, time to live, maximum, host. Returns the outcome, the head, and the subscription. */
export const SUBSCRIBE: string = `${PRELUDE}
sweep()
local id, owner, name, webhook, record, max = ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], tonumber(ARGV[10])
local group = P .. 'group:' .. webhook .. ':' .. owner
local known = live(id)
local bytes = #record + ENTRY
if not known then
  if call('ZCARD', group) >= max then
    for _, other in ipairs(call('ZRANGE', group, 0, -1)) do live(other) end
  end
  if call('ZCARD', group) >= max then
    if webhook == '1' then return { 'owner-full' } end
    finish(call('ZRANGE', group, 0, 0)[1], '')
  end
end
local more = bytes - (known and tonumber(known[5]) or 0)
if spent(owner) + more > MAX_OWNER then return { 'owner-full' } end
local key = P .. 'sub:' .. id
if not known then
  local last = call('GET', P .. 'last:' .. id)
  if last then drop(last) end
  call('HSET', key, 'since', call('INCR', P .. 'head'))
end
local ends = int(now + ARGV[9])
call('HSET', key, 'owner', owner, 'name', name, 'webhook', webhook, 'record', record, 'bytes', bytes, 'expiresAt', ends,
  'host', ARGV[11])
call('ZADD', P .. 'expiry', ends, id)
call('ZADD', P .. 'subs:' .. name, call('HGET', key, 'since'), id)
call('ZADD', group, int(now), id)
spend(owner, more)
local waiting = call('ZRANGE', P .. 'pend:' .. id, 0, -1)
if known and known[4] then waiting[#waiting + 1] = known[4] end
for _, delivery in ipairs(waiting) do
  if call('HGET', P .. 'dl:' .. delivery, 'lease') == '' then due(owner, ARGV[11], delivery, now) end
end
local reply = { known and 'renewed' or 'added', head() }
show(reply, id)
return reply
`

/** Argument: id. Returns the subscription, or nothing. */
export const GET: string = `${PRELUDE}
local reply = {}
if live(ARGV[4]) then show(reply, ARGV[4]) end
return reply
`

/** Arguments: name, position, number, and further positions are after. Returns the head, the last position, and subscriptions. */
export const LIST: string = `${PRELUDE}
local reply = { head(), '' }
local page = call('ZRANGEBYSCORE', P .. 'subs:' .. ARGV[4], '(' .. ARGV[5], '+inf', 'WITHSCORES', 'LIMIT', 0, ARGV[6])
for index = 1, #page, 2 do
  if live(page[index]) then show(reply, page[index]) end
  reply[2] = page[index + 1]
end
return reply
`

/** Arguments: name, position, owners as JSON. Returns the head, an empty string, and subscriptions. */
export const LIST_OWNERS: string = `${PRELUDE}
local reply = { head(), '' }
for _, owner in ipairs(cjson.decode(ARGV[6])) do
  for _, webhook in ipairs({ '1', '0' }) do
    for _, id in ipairs(call('ZRANGE', P .. 'group:' .. webhook .. ':' .. owner, 0, -1)) do
      local s = live(id)
      if s and s[6] == ARGV[4] and tonumber(call('HGET', P .. 'sub:' .. id, 'since')) > tonumber(ARGV[5]) then show(reply, id) end
    end
  end
end
return reply
`

/** Arguments: id, body of the last message. Returns the name of the event type, or nothing. */
export const END: string = `${PRELUDE}
local s = live(ARGV[4])
if not s then return {} end
finish(ARGV[4], ARGV[5])
return { s[6] }
`

/** Arguments: name, body, channels as JSON, deliveries as JSON. Returns the position, and the subscriptions without room. */
export const APPEND: string = `${PRELUDE}
sweep()
local name, body, channels = ARGV[4], ARGV[5], cjson.decode(ARGV[6])
local position = int(call('INCR', P .. 'head'))
local size = #body + ENTRY
for _, channel in ipairs(channels) do
  call('ZADD', P .. 'chan:' .. name .. ':' .. channel, position, position)
  size = size + #channel + 64
end
call('HSET', P .. 'evt:' .. position, 'name', name, 'body', body, 'at', int(now), 'channels', ARGV[6], 'size', size, 'refs', 1)
call('ZADD', P .. 'log:' .. name, position, position)
call('HINCRBY', P .. 'logbytes', name, size)
local reply = { position }
deliver(position, #body, cjson.decode(ARGV[7]), reply)
trim(name)
return reply
`

/** Arguments: name, positions, channels, and deliveries as JSON. Returns the subscriptions without room. */
export const EXTEND: string = `${PRELUDE}
local name, dropped = ARGV[4], {}
for _, number in ipairs(cjson.decode(ARGV[5])) do
  local position = int(number)
  if call('ZSCORE', P .. 'log:' .. name, position) then
    local e = call('HMGET', P .. 'evt:' .. position, 'channels', 'body')
    local channels, known, more = cjson.decode(e[1]), {}, 0
    for _, channel in ipairs(channels) do known[channel] = true end
    for _, channel in ipairs(cjson.decode(ARGV[6])) do
      if not known[channel] then
        channels[#channels + 1] = channel
        call('ZADD', P .. 'chan:' .. name .. ':' .. channel, position, position)
        more = more + #channel + 64
      end
    end
    if more > 0 then
      call('HSET', P .. 'evt:' .. position, 'channels', cjson.encode(channels))
      call('HINCRBY', P .. 'evt:' .. position, 'size', more)
      call('HINCRBY', P .. 'logbytes', name, more)
    end
    deliver(position, #e[2], cjson.decode(ARGV[7]), dropped)
  end
end
trim(name)
return dropped
`

/** Arguments: name, channels as JSON, position, events, bytes. Returns the head, the dropped position, `1` for more, and events. */
export const READ: string = `${PRELUDE}
local name, max = ARGV[4], tonumber(ARGV[7])
trim(name)
local found, seen = {}, {}
for _, channel in ipairs(cjson.decode(ARGV[5])) do
  local key = P .. 'chan:' .. name .. ':' .. channel
  for _, position in ipairs(call('ZRANGEBYSCORE', key, '(' .. ARGV[6], '+inf', 'LIMIT', 0, max + 1)) do
    if not seen[position] then found[#found + 1] = tonumber(position) end
    seen[position] = true
  end
end
table.sort(found)
local reply = { head(), call('HGET', P .. 'dropped', name) or '0', '0' }
local bytes = 0
for index, position in ipairs(found) do
  local e = call('HMGET', P .. 'evt:' .. int(position), 'at', 'body')
  bytes = bytes + #e[2]
  if index > max or (bytes > tonumber(ARGV[8]) and index > 1) then
    reply[3] = '1'
    break
  end
  reply[#reply + 1] = int(position)
  reply[#reply + 1] = e[1]
  reply[#reply + 1] = e[2]
end
return reply
`

/** Argument: a new id. Returns the id of the log. */
export const EPOCH: string = `
redis.call('SET', KEYS[1] .. ':epoch', ARGV[4], 'NX')
return redis.call('GET', KEYS[1] .. ':epoch')
`

/** Arguments: time of the lease, number, a random text, busy hosts and owners as JSON. Returns the wait, and the deliveries. Each lane gets one in turn. */
export const TAKE: string = `${PRELUDE}
sweep()
local reply, taken, left, hosts, owners = { '' }, 0, 0, {}, {}
for _, host in ipairs(cjson.decode(ARGV[7])) do hosts[host] = true end
for _, owner in ipairs(cjson.decode(ARGV[8])) do owners[owner] = true end

while taken < tonumber(ARGV[5]) and left < 200 do
  local lane = call('ZRANGEBYSCORE', P .. 'lanes', '-inf', '(' .. int(now + 1), 'LIMIT', 0, 1)[1]
  if not lane then break end
  local id = call('ZRANGEBYSCORE', P .. 'due:' .. lane, '-inf', int(now), 'LIMIT', 0, 1)[1]
  local of = id and call('HMGET', P .. 'dl:' .. id, 'owner', 'host')
  if of and (owners[of[1] or ''] or hosts[of[2] or '']) then id = nil end
  if id then
    local d = call('HMGET', P .. 'dl:' .. id, 'kind', 'position', 'attempts', 'addedAt', 'body', 'sub', 'record', 'since', 'expiresAt')
    local body = d[5] or ''
    if d[1] == 'event' then body = call('HGET', P .. 'evt:' .. d[2], 'body') end
    -- A Redis that evicts keys can have lost a part of a delivery.
    if not d[1] then call('ZREM', P .. 'due:' .. lane, id)
    elseif not body then drop(id)
    elseif d[1] == 'terminated' or live(d[6]) then
      taken = taken + 1
      local lease = ARGV[6] .. '.' .. taken
      call('HSET', P .. 'dl:' .. id, 'lease', lease, 'attempts', d[3] + 1)
      call('ZADD', P .. 'due:' .. lane, int(now + ARGV[4]), id)
      for _, value in ipairs({ id, lease, d[1], d[1] == 'gap' and head() or d[2], d[3], d[4], body }) do reply[#reply + 1] = value end
      if d[1] == 'terminated' then
        for _, value in ipairs({ d[7], d[8], d[9], '', '', '', '' }) do reply[#reply + 1] = value end
      else show(reply, d[6]) end
    end
  end
  local first = call('ZRANGE', P .. 'due:' .. lane, 0, 0, 'WITHSCORES')
  if not first[1] then call('ZREM', P .. 'lanes', lane)
  else
    -- Lanes whose turn has come wait behind the others.
    local at = tonumber(first[2])
    if at <= now and not id then
      at = now + 250
      left = left + 1
    end
    call('ZADD', P .. 'lanes', at <= now and string.format('%.3f', now + taken / 1000) or int(at), lane)
  end
end
local next = call('ZRANGE', P .. 'lanes', 0, 0, 'WITHSCORES')
if next[1] then reply[1] = int(math.max(0, math.ceil(next[2] - now))) end
return reply
`

/** Arguments: id, lease, outcome, delay, error. Returns 1, or 0 if the outcome has no effect. */
export const SETTLE: string = `${PRELUDE}
local id, outcome, failure = ARGV[4], ARGV[6], ARGV[8]
local d = call('HMGET', P .. 'dl:' .. id, 'lease', 'owner', 'sub', 'kind', 'host')
if not d[1] or d[1] ~= ARGV[5] then return 0 end
local sub = P .. 'sub:' .. d[3]
local isKept = d[4] ~= 'terminated'
if isKept and not live(d[3]) then return 0 end
if outcome == 'failed' or outcome == 'postponed' then
  if outcome == 'postponed' then call('HINCRBY', P .. 'dl:' .. id, 'attempts', -1) end
  call('HSET', P .. 'dl:' .. id, 'lease', '')
  due(d[2], d[5], id, now + ARGV[7])
else drop(id) end
if not isKept then return 1 end
if outcome == 'delivered' then
  call('HSET', sub, 'lastDeliveryAt', int(now))
  call('HDEL', sub, 'lastError', 'failedSince')
elseif failure ~= '' then
  call('HSET', sub, 'lastError', failure)
  call('HSETNX', sub, 'failedSince', int(now))
end
if outcome == 'abandoned' and d[4] == 'event' then gap(d[3], d[2], d[5]) end
return 1
`

/** Arguments: owner, hash of the URL, time to live, maximum. */
export const SET_VERIFIED: string = `${PRELUDE}
local key = P .. 'ver:' .. ARGV[4]
call('ZREMRANGEBYSCORE', key, '-inf', int(now))
call('ZADD', key, int(now + ARGV[6]), ARGV[5])
call('ZREMRANGEBYRANK', key, 0, -1 - ARGV[7])
if call('PTTL', key) < tonumber(ARGV[6]) then call('PEXPIRE', key, ARGV[6]) end
return 1
`

/** Arguments: owner, hash of the URL. Returns 1 or 0. */
export const IS_VERIFIED: string = `${PRELUDE}
local untilMs = call('ZSCORE', P .. 'ver:' .. ARGV[4], ARGV[5])
return untilMs and tonumber(untilMs) > now and 1 or 0
`
