import type { TelemetryEnvelope } from '../../envelope/envelope.ts'

/**
 * A Redis client: of ioredis (or a cluster), of node-redis (or a cluster or a pool), or any object with the method `xadd` of
 * ioredis or `xAdd` of node-redis.
 */
export type StreamStore =
  | {
      /** `xadd(key, 'MAXLEN', '~', threshold, '*', field, value, …)`, as in ioredis. */
      xadd(...args: any[]): unknown
    }
  | {
      /** `xAdd(key, '*', { field: value }, { TRIM })`, as in node-redis. */
      xAdd(...args: any[]): unknown
    }

/** Returns the fields of an entry of the stream. Every value is a string. */
function fieldsOf(envelope: TelemetryEnvelope): Readonly<Record<string, string>> {
  const { name, time, level } = envelope
  return { name, time, level, event: JSON.stringify(envelope) }
}

/** `ready` sends commands at once, `away` after the client has reconnected, `closed` only if the application connects it. */
export type StoreState = 'ready' | 'away' | 'closed'

/** A common interface for all clients. Every method rejects with the error of the client. */
export interface StreamClient {
  state(): StoreState
  /** Adds one entry. */
  add(envelope: TelemetryEnvelope): Promise<unknown>
  /** Adds all entries or none in one transaction. Returns an id or an error for each. `undefined` without transactions. */
  readonly addAll: ((batch: readonly TelemetryEnvelope[]) => Promise<readonly unknown[]>) | undefined
}

type Method = (...args: any[]) => any
type AnyStore = Readonly<Record<string, Method | undefined>>

/** Returns the interface for a client of either library. */
export function streamClient(store: StreamStore, stream: string, maxLen: number): StreamClient {
  const like = hasMethod(store, 'xadd') ? likeIoredis : likeNodeRedis
  return like(store as unknown as AnyStore, stream, maxLen)
}

function likeIoredis(store: AnyStore, stream: string, maxLen: number): StreamClient {
  const argumentsOf = (envelope: TelemetryEnvelope): unknown[] => [
    ...[stream, 'MAXLEN', '~', maxLen, '*'],
    ...Object.entries(fieldsOf(envelope)).flat(),
  ]
  return {
    state: stateOf(store),
    add: async (envelope) => await store.xadd?.(...argumentsOf(envelope)),
    addAll: hasMethod(store, 'multi')
      ? async (batch) => {
          const transaction = store.multi?.()
          for (const envelope of batch) transaction.xadd(...argumentsOf(envelope))
          const replies: [unknown, unknown][] = await transaction.exec()
          return replies.map(([error, id]) => error ?? id)
        }
      : undefined,
  }
}

function likeNodeRedis(store: AnyStore, stream: string, maxLen: number): StreamClient {
  const options = { TRIM: { strategy: 'MAXLEN', strategyModifier: '~', threshold: maxLen } }
  return {
    state: stateOf(store),
    add: async (envelope) => await store.xAdd?.(stream, '*', fieldsOf(envelope), options),
    addAll: hasMethod(store, 'multi')
      ? async (batch) => {
          let transaction = store.multi?.()
          for (const envelope of batch)
            transaction = transaction.xAdd(stream, '*', fieldsOf(envelope), options)
          try {
            return await transaction.exec()
          } catch (error) {
            // Some entries were added, others were not.
            const { replies } = error as { readonly replies?: readonly unknown[] }
            if (Array.isArray(replies)) return replies
            throw error
          }
        }
      : undefined,
  }
}

/** Reads `status` (ioredis), or `isReady` and `isOpen` (node-redis). A client without them is always ready. */
function stateOf(store: object): () => StoreState {
  let wasOpen = false
  return () => {
    const { status, isReady, isOpen } = store as { status?: unknown; isReady?: unknown; isOpen?: unknown }
    if (typeof status === 'string') {
      // A lazy client connects at its first command.
      return status === 'ready' || status === 'wait' ? 'ready' : status === 'end' ? 'closed' : 'away'
    }
    if (isOpen === true || isReady === true) wasOpen = true
    const ready = typeof isReady === 'boolean' ? isReady : isOpen !== false
    if (ready) return 'ready'
    return wasOpen && isOpen === false ? 'closed' : 'away'
  }
}

function hasMethod(store: unknown, name: string): boolean {
  return typeof (store as AnyStore | null | undefined)?.[name] === 'function'
}

/** The meaning of a failed command for its entries. */
export interface StreamFailure {
  /**
   * - `lost`: the connection was lost, and the entries may be in the stream.
   * - `busy`: Redis does not accept entries at the moment.
   * - `no-transactions`: the client may not use MULTI.
   * - `refused`: Redis will never accept the entries.
   * - `unknown`: any other failure.
   */
  readonly kind: 'lost' | 'busy' | 'no-transactions' | 'refused' | 'unknown'
  /** The error code of Redis, such as `WRONGTYPE`. */
  readonly code?: string
}

const BUSY_CODES = new Set([
  ...['LOADING', 'READONLY', 'OOM', 'BUSY', 'MASTERDOWN', 'CLUSTERDOWN', 'TRYAGAIN', 'MISCONF', 'NOREPLICAS'],
  ...['EXECABORT', 'FAILOVER'],
])

/** The beginning of an error reply of Redis: `WRONGTYPE Operation against a key …`. */
const REPLY_CODE = /^-?([A-Z][A-Z0-9_]{2,}) /

/** The words by which both clients report connection problems and timeouts. */
const CONNECTION_PROBLEM =
  /connect|socket|stream isn't writeable|timeout|timed out|client is (?:closed|offline)|queue is full|disconnects client|max retries|retries per request|aborted|root nodes/i

/** Returns the meaning of an error of ioredis, node-redis, or a socket for the entries of the command. */
export function readStreamFailure(error: unknown): StreamFailure {
  const { previousErrors } = (error ?? {}) as { readonly previousErrors?: readonly unknown[] }
  // For a discarded transaction, ioredis keeps the errors that led to it.
  const first: unknown = Array.isArray(previousErrors) ? (previousErrors[0] ?? error) : error
  const { message, code } = (first ?? {}) as { readonly message?: unknown; readonly code?: unknown }
  const text = typeof message === 'string' ? message : ''
  const reply = REPLY_CODE.exec(text)?.[1]
  if (reply !== undefined) {
    if (/\b(?:multi|exec)\b/i.test(text)) return { kind: 'no-transactions', code: reply }
    return { kind: BUSY_CODES.has(reply) ? 'busy' : 'refused', code: reply }
  }
  if ((typeof code === 'string' && /^E[A-Z]/.test(code)) || CONNECTION_PROBLEM.test(text))
    return { kind: 'lost' }
  return { kind: 'unknown' }
}
