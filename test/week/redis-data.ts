/** The data and the commands of a Redis server, with the time of a function. */

type Value =
  | { readonly kind: 'string'; readonly text: string }
  | { readonly kind: 'hash'; readonly fields: ReadonlyMap<string, string> }
  | { readonly kind: 'zset'; readonly scores: ReadonlyMap<string, number> }
  | {
      readonly kind: 'stream'
      readonly entries: readonly Entry[]
      readonly lastMs: number
      readonly lastCount: number
    }

interface Entry {
  readonly id: string
  readonly fields: readonly string[]
}

interface Stored {
  readonly value: Value
  readonly expiresAtMs: number
}

/** The data of a server. Values are replaced, never changed, so that a copy is cheap. */
export type Data = ReadonlyMap<string, Stored>

export type Reply = string | number | null | ErrorReply | StatusReply | readonly Reply[]

export class ErrorReply {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export class StatusReply {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

export const OK: StatusReply = new StatusReply('OK')
const WRONG_TYPE = new ErrorReply('WRONGTYPE Operation against a key holding the wrong kind of value')

/** Encodes a reply in RESP 2. */
export function encode(reply: Reply): string {
  if (reply === null) return '$-1\r\n'
  if (reply instanceof ErrorReply) return `-${reply.text}\r\n`
  if (reply instanceof StatusReply) return `+${reply.text}\r\n`
  if (typeof reply === 'number') return `:${reply}\r\n`
  if (typeof reply === 'string') return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
  return `*${reply.length}\r\n${reply.map(encode).join('')}`
}

/** Reads commands from the bytes of a connection. */
export class CommandReader {
  #rest: Buffer = Buffer.alloc(0)

  read(chunk: Buffer): string[][] {
    this.#rest = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk])
    const commands: string[][] = []
    for (let at = 0; ; ) {
      const read = this.#command(at)
      if (read === undefined) {
        this.#rest = this.#rest.subarray(at)
        return commands
      }
      commands.push(read.words)
      at = read.end
    }
  }

  #command(start: number): { readonly words: string[]; readonly end: number } | undefined {
    let at = start
    const line = (): string | undefined => {
      const end = this.#rest.indexOf('\r\n', at)
      if (end === -1) return undefined
      const text = this.#rest.toString('latin1', at, end)
      at = end + 2
      return text
    }
    const count = line()
    if (count === undefined) return undefined
    if (!count.startsWith('*')) throw new Error(`not a command: ${count}`)
    const words: string[] = []
    for (let index = 0; index < Number(count.slice(1)); index++) {
      const length = line()
      if (length === undefined) return undefined
      const end = at + Number(length.slice(1))
      if (end + 2 > this.#rest.length) return undefined
      words.push(this.#rest.toString('utf8', at, end))
      at = end + 2
    }
    return { words, end: at }
  }
}

/** The data and the commands, without a network. */
export class RedisData {
  #data = new Map<string, Stored>()
  readonly #now: () => number

  constructor(now: () => number) {
    this.#now = now
  }

  /** The data as they are now. */
  copy(): Data {
    return new Map(this.#data)
  }

  replace(data: Data): void {
    this.#data = new Map(data)
  }

  get size(): number {
    for (const key of [...this.#data.keys()]) this.#get(key)
    return this.#data.size
  }

  /** Entries that were ever added to a stream are read by the test. */
  entriesOf(key: string): readonly Entry[] {
    const value = this.#get(key)?.value
    return value?.kind === 'stream' ? value.entries : []
  }

  #get(key: string): Stored | undefined {
    const stored = this.#data.get(key)
    if (stored === undefined || stored.expiresAtMs > this.#now()) return stored
    this.#data.delete(key)
    return undefined
  }

  #put(key: string, value: Value, expiresAtMs: number = Number.POSITIVE_INFINITY): void {
    this.#data.set(key, { value, expiresAtMs })
  }

  /** Executes one command. */
  run([name = '', ...args]: readonly string[]): Reply {
    const [key = '', ...rest] = args
    const stored = key === '' ? undefined : this.#get(key)
    switch (name.toLowerCase()) {
      case 'get':
        return stored === undefined ? null : stored.value.kind === 'string' ? stored.value.text : WRONG_TYPE
      case 'set':
        return this.#set(key, rest, stored)
      case 'getdel':
        if (stored === undefined) return null
        if (stored.value.kind !== 'string') return WRONG_TYPE
        this.#data.delete(key)
        return stored.value.text
      case 'del':
        return args.filter((one) => this.#get(one) !== undefined && this.#data.delete(one)).length
      case 'exists':
        return args.filter((one) => this.#get(one) !== undefined).length
      case 'xadd':
        return this.#xadd(key, rest)
      case 'xrevrange':
        return stored !== undefined && stored.value.kind !== 'stream'
          ? WRONG_TYPE
          : this.#xrevrange(key, rest)
      case 'xdel': {
        if (stored === undefined) return 0
        if (stored.value.kind !== 'stream') return WRONG_TYPE
        const kept = stored.value.entries.filter(({ id }) => !rest.includes(id))
        const removed = stored.value.entries.length - kept.length
        this.#put(key, { ...stored.value, entries: kept })
        return removed
      }
      case 'eval':
        return this.#eval(key, rest)
      case 'evalsha':
        return new ErrorReply('NOSCRIPT No matching script.')
      case 'dbsize':
        return this.size
      default:
        return new ErrorReply(`ERR unknown command '${name}', with args beginning with: `)
    }
  }

  #set(key: string, [text = '', ...options]: readonly string[], stored: Stored | undefined): Reply {
    let ttlMs = Number.POSITIVE_INFINITY
    for (let index = 0; index < options.length; index++) {
      const option = String(options[index]).toUpperCase()
      if (option === 'NX') {
        if (stored !== undefined) return null
      } else if (option === 'PX' || option === 'EX') {
        ttlMs = Number(options[++index]) * (option === 'EX' ? 1000 : 1)
        if (!Number.isInteger(ttlMs)) return new ErrorReply('ERR value is not an integer or out of range')
        if (ttlMs <= 0) return new ErrorReply("ERR invalid expire time in 'set' command")
      } else return new ErrorReply('ERR syntax error')
    }
    this.#put(key, { kind: 'string', text }, this.#now() + ttlMs)
    return OK
  }

  #xadd(key: string, args: readonly string[]): Reply {
    const stored = this.#get(key)?.value
    if (stored !== undefined && stored.kind !== 'stream') return WRONG_TYPE
    const [, , max, id, ...fields] = args[0]?.toUpperCase() === 'MAXLEN' ? args : ['', '', '', ...args]
    if (id !== '*' || fields.length === 0 || fields.length % 2 === 1)
      return new ErrorReply("ERR wrong number of arguments for 'xadd' command")
    const nowMs = Math.max(this.#now(), stored?.lastMs ?? 0)
    const count = nowMs === stored?.lastMs ? stored.lastCount + 1 : 0
    const entry = { id: `${nowMs}-${count}`, fields }
    const entries = [...(stored?.entries ?? []), entry]
    this.#put(key, {
      kind: 'stream',
      entries: max === '' ? entries : entries.slice(-Number(max)),
      lastMs: nowMs,
      lastCount: count,
    })
    return entry.id
  }

  #xrevrange(key: string, [end = '+', start = '-', , count = 'Infinity']: readonly string[]): Reply {
    const order = (id: string): number => {
      const [ms = '0', part = '0'] = id.split('-')
      return Number(ms) * 1_000_000 + Number(part)
    }
    const last = end.replace(/^\(/, '')
    const isWithin = (id: string): boolean =>
      (end === '+' || (end.startsWith('(') ? order(id) < order(last) : order(id) <= order(last))) &&
      (start === '-' || order(id) >= order(start.replace(/^\(/, '')) + (start.startsWith('(') ? 1 : 0))
    return this.entriesOf(key)
      .filter(({ id }) => isWithin(id))
      .toReversed()
      .slice(0, Number(count))
      .map(({ id, fields }) => [id, fields])
  }

  /** The scripts of `redisTaskStore` and `RateLimiterRedis`, found by the commands that they call. */
  #eval(script: string, [count = '0', ...rest]: readonly string[]): Reply {
    const keys = rest.slice(0, Number(count))
    const args = rest.slice(Number(count))
    const calls = [...script.matchAll(/redis\.call\('([A-Z]+)'/gi)].map(([, call]) => call).join(' ')
    const [task = '', index = ''] = keys
    const found = this.#get(task)
    const fields = found?.value.kind === 'hash' ? found.value.fields : undefined
    switch (calls) {
      case 'HMGET':
        return [fields?.get('value') ?? null, fields?.get('version') ?? null]
      case 'HMGET HSET': {
        if (fields?.get('change') === args[2]) return 1
        if (fields?.get('version') !== args[0]) return 0
        const version = String(Number(args[0]) + 1)
        this.#put(
          task,
          {
            kind: 'hash',
            fields: new Map([
              ['value', String(args[1])],
              ['version', version],
              ['change', String(args[2])],
            ]),
          },
          found?.expiresAtMs,
        )
        return 1
      }
      case 'EXISTS TIME ZREMRANGEBYSCORE ZCARD HSET PEXPIRE ZADD PTTL PEXPIRE': {
        if (found !== undefined) return 1
        const [ttl, max, id = '', value = ''] = args
        const nowMs = this.#now()
        const before = this.#get(index)
        const scores = new Map(before?.value.kind === 'zset' ? before.value.scores : [])
        for (const [member, score] of scores) if (score <= nowMs) scores.delete(member)
        const isFull = scores.size >= Number(max)
        if (!isFull) {
          this.#put(
            task,
            {
              kind: 'hash',
              fields: new Map([
                ['value', value],
                ['version', '1'],
              ]),
            },
            nowMs + Number(ttl),
          )
          scores.set(id, nowMs + Number(ttl))
        }
        if (scores.size === 0) this.#data.delete(index)
        else {
          const expiry = before?.expiresAtMs ?? 0
          this.#put(
            index,
            { kind: 'zset', scores },
            isFull ? expiry : Math.max(Number.isFinite(expiry) ? expiry : 0, nowMs + Number(ttl)),
          )
        }
        return isFull ? 0 : 1
      }
      case 'set incrby pttl expire': {
        const [points, seconds] = args
        const before = found?.value.kind === 'string' ? Number(found.value.text) : 0
        const expiresAtMs = found?.expiresAtMs ?? this.#now() + Number(seconds) * 1000
        this.#put(task, { kind: 'string', text: String(before + Number(points)) }, expiresAtMs)
        return [before + Number(points), expiresAtMs - this.#now()]
      }
      default:
        return new ErrorReply(`ERR the stand-in does not know this script, which calls ${calls}`)
    }
  }
}
