import { valueIn } from '../redis-replies.ts'
import { type RunScript, type ScriptClient, scriptRunner } from './run-script.ts'

/** Every script composes its keys from `KEYS[1]`, so that a cluster keeps them on one node. */
const NOW = `local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)`

/** Runs one command. Arguments: the command, the rest of its key, its arguments. */
const CALL = `return redis.call(ARGV[1], KEYS[1] .. ARGV[2], unpack(ARGV, 3))`

/** Arguments: id, kind, owner, event type, record, time to live, maximum. Returns 1 for a new subscription, 0, or -1 if it was refused. */
export const SUBSCRIBE = `${NOW}
local base, id, kind, owner, type, ttl = KEYS[1], ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[6])
local sub, own, all = base .. 'sub:' .. id, base .. 'own:' .. kind .. owner, base .. 'type:' .. kind .. type
local since = redis.call('HGET', sub, 'since')
local isNew = since and 0 or 1
if isNew == 1 then
  redis.call('ZREMRANGEBYSCORE', own, '-inf', now)
  redis.call('ZREMRANGEBYSCORE', all, '-inf', now)
  if redis.call('ZCARD', own) >= tonumber(ARGV[7]) then
    if kind == 'w:' then return -1 end
    local oldest = redis.call('ZPOPMIN', own)[1]
    redis.call('DEL', base .. 'sub:' .. string.match(oldest, '^%S+'))
    redis.call('ZREM', base .. 'type:' .. kind .. string.match(oldest, '%S+$'), oldest)
  end
  since = redis.call('HGET', base .. 'meta:' .. type, 'head') or 0
end
redis.call('HSET', sub, 'record', ARGV[5], 'since', since, 'expiresAt', now + ttl)
redis.call('PEXPIRE', sub, ttl)
for _, key in ipairs({ own, all }) do
  redis.call('ZADD', key, now + ttl, table.concat({ id, owner, since, type }, ' '))
  if redis.call('PTTL', key) < ttl then redis.call('PEXPIRE', key, ttl) end
end
return isNew`

/** Arguments: event type, new epoch, body, channels, maximum bytes, maximum age, life of an empty log. Returns the position. */
export const APPEND = `${NOW}
local log, meta = KEYS[1] .. 'log:' .. ARGV[1], KEYS[1] .. 'meta:' .. ARGV[1]
redis.call('HSETNX', meta, 'epoch', ARGV[2])
if redis.call('EXISTS', log) == 0 then redis.call('HSET', meta, 'bytes', 0) end
local head = redis.call('HINCRBY', meta, 'head', 1)
local bytes = redis.call('HINCRBY', meta, 'bytes', #ARGV[3])
redis.call('XADD', log, head .. '-0', 'at', now, 'to', ARGV[4], 'body', ARGV[3])
for _ = 1, 100 do
  local first = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1]
  if not first or (bytes <= tonumber(ARGV[5]) and tonumber(first[2][2]) > now - ARGV[6]) then break end
  bytes = redis.call('HINCRBY', meta, 'bytes', -#first[2][6])
  redis.call('XTRIM', log, 'MINID', string.match(first[1], '%d+') + 1)
end
redis.call('PEXPIRE', log, ARGV[6])
redis.call('PEXPIRE', meta, ARGV[7])
return head`

/**
 * Arguments: owner, subscription, position, bytes, maximum number and bytes, life. Returns how many wait, and what was dropped, as
 * `subscription position bytes`.
 */
export const WAIT = `local base, owner, pend = KEYS[1], ARGV[1], KEYS[1] .. 'pend:'
local wait, bytes = base .. 'wait:' .. owner, base .. 'bytes:' .. owner
local time = redis.call('TIME')
local score = time[1] * 1000000 + time[2]
if redis.call('ZADD', wait, 'NX', score, table.concat(ARGV, ' ', 2, 4)) == 0 then return { 0 } end
redis.call('ZADD', pend .. ARGV[2], ARGV[3], ARGV[3])
local all = redis.call('INCRBY', bytes, ARGV[4])
local reply = { redis.call('ZCARD', wait) }
while redis.call('ZCARD', wait) > tonumber(ARGV[5]) or all > tonumber(ARGV[6]) do
  local oldest = redis.call('ZPOPMIN', wait)[1]
  local subscription, position, size = string.match(oldest, '(%S+) (%S+) (%S+)')
  all = redis.call('DECRBY', bytes, size)
  redis.call('ZREM', pend .. subscription, position)
  reply[#reply + 1] = oldest
end
for _, key in ipairs({ wait, bytes, pend .. ARGV[2] }) do redis.call('PEXPIRE', key, ARGV[7]) end
return reply`

/** Arguments: owner, subscription, position, bytes. */
export const DONE = `local base, owner = KEYS[1], ARGV[1]
if redis.call('ZREM', base .. 'wait:' .. owner, table.concat(ARGV, ' ', 2, 4)) == 0 then return 0 end
redis.call('DECRBY', base .. 'bytes:' .. owner, ARGV[4])
return redis.call('ZREM', base .. 'pend:' .. ARGV[2], ARGV[3])`

/** Runs scripts and commands with the keys of a store. */
export class EventKeys {
  readonly #eval: RunScript
  readonly #base: string

  constructor(client: ScriptClient, base: string) {
    this.#eval = scriptRunner(client)
    this.#base = base
  }

  run(script: string, values: readonly (string | number)[]): Promise<unknown> {
    return this.#eval(script, [this.#base], values.map(String))
  }

  /** Runs one command. Its first key follows the base. */
  command(name: string, key: string, ...values: readonly (string | number)[]): Promise<unknown> {
    return this.run(CALL, [name, key, ...values])
  }

  /** Runs a command that returns a list. */
  async list(name: string, key: string, ...values: readonly (string | number)[]): Promise<string[]> {
    return ((await this.command(name, key, ...values)) as unknown[]).map((value) => valueIn(value) ?? '')
  }
}
