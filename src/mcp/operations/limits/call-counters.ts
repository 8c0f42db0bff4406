import { createHash } from 'node:crypto'
import type { CallToolResult } from '@modelcontextprotocol/server'
import { clientKey } from '../../../base/http/client-address.ts'
import { counted } from '../../../base/options/counted.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'
import { type AuthInfo, tokenIssuer } from '../../../oauth/auth-info.ts'
import { RequestContext } from '../../../oauth/inputs.ts'
import {
  LimiterGuard,
  type RateLimiterLike,
  waitingMs,
  wholeSeconds,
} from '../../../oauth/limits/rate-limiter.ts'
import { WindowCounter } from '../../../oauth/limits/window-counter.ts'
import { ownerOf } from '../../../oauth/owner.ts'
import {
  type CallLimit,
  type ConcurrencyLimit,
  type CountedCall,
  LIMITS,
  type LimitedBy,
  type Reach,
} from '../../router/limits.ts'
import type { Exchange, ReachedLimit } from '../../wire/exchange.ts'
import { OwnerSlots } from '../../wire/owner-slots.ts'

/** The maximum number of counts of each kind in memory: those of users and clients, and those of addresses. */
const MAX_COUNTS = 100_000

/** The minimum time between two events about a store that fails. */
const REPORT_INTERVAL_MS = 10_000

/**
 * Begins a call within one limit. Returns a function that ends it, if the limit is about calls in progress. It may be called once.
 * @throws the limit that the call exceeds
 */
export type BeginCall = (call: CountedCall) => (() => void) | undefined | Promise<undefined>

/**
 * The counts of all limits of an adapter in memory. Addresses are kept apart from users and clients, so that a flood from many
 * addresses does not drop the counts of users.
 */
export class CallCounts {
  readonly #identities = new WindowCounter(MAX_COUNTS)
  readonly #addresses = new WindowCounter(MAX_COUNTS)

  /** Counts a call. @param prefix distinguishes the limits */
  add(
    prefix: string,
    { key, isAddress }: Pick<CallerKey, 'key' | 'isAddress'>,
    durationMs: number,
  ): { points: number; leftMs: number } {
    const counter = isAddress ? this.#addresses : this.#identities
    return counter.add(`${prefix} ${key}`, durationMs)
  }

  /** The number of counts that are kept. */
  get size(): number {
    return this.#identities.size + this.#addresses.size
  }
}

/** Counts calls in memory. @param tool the tool that the limit belongs to. Undefined for the limit of the adapter. */
export function countedInMemory(limit: CallLimit, tool: string | undefined, counts: CallCounts): BeginCall {
  return ({ exchange }) => {
    const caller = callerKey(exchange, limit.by)
    const { points: actual, leftMs } = counts.add(tool ?? '', caller, limit.perSeconds * 1000)
    if (actual <= limit.max) return undefined
    const retryAfterSeconds = wholeSeconds(leftMs)
    throw new LimitReached('calls', { ...limit, ...caller, tool, actual, retryAfterSeconds })
  }
}

/** A store of limits, which all limits that use it share. */
export class LimitStoreState {
  readonly guard: LimiterGuard = new LimiterGuard()
  #reportedAtMs = Number.NEGATIVE_INFINITY

  /** Emits an event, unless there was one recently. */
  report({ exchange, timed }: CountedCall, thrown: unknown): void {
    const nowMs = performance.now()
    if (nowMs - this.#reportedAtMs < REPORT_INTERVAL_MS) return
    this.#reportedAtMs = nowMs
    exchange.telemetry.record('limit.unavailable', timed, { failure: { thrown } })
  }
}

/** Counts calls in a store that nodes share. If the store fails or takes too long, calls pass. */
export function countedInStore(
  limit: CallLimit,
  tool: string | undefined,
  limiter: RateLimiterLike,
  store: LimitStoreState,
): BeginCall {
  return async (call) => {
    const caller = callerKey(call.exchange, limit.by)
    const rejection = await store.guard.consume(limiter, caller.key).catch((thrown: unknown) => {
      store.report(call, thrown)
    })
    const ms = waitingMs(rejection)
    if (ms === undefined) return undefined
    const { consumedPoints } = rejection as { consumedPoints?: unknown }
    const actual = typeof consumedPoints === 'number' ? consumedPoints : limit.max + 1
    const retryAfterSeconds = wholeSeconds(ms)
    throw new LimitReached('calls', { ...limit, ...caller, tool, actual, retryAfterSeconds })
  }
}

/** Counts the calls in progress of each caller. @param tool as for `countedInMemory` */
export function inProgress(limit: ConcurrencyLimit, tool: string | undefined): BeginCall {
  const slots = new OwnerSlots({ max: Number.POSITIVE_INFINITY, maxPerOwner: limit.max })
  return ({ exchange }) => {
    const { key, scope } = callerKey(exchange, limit.by)
    if (slots.exhausted(key) === undefined) return slots.take(key)
    // The end of the calls in progress cannot be predicted.
    const reach = { ...limit, tool, scope, actual: limit.max + 1, retryAfterSeconds: 1 }
    throw new LimitReached('concurrency', reach)
  }
}

/** The member of `_meta` that says after how many seconds a client may try again. */
export const RETRY_META_KEY = 'mcp-gatekit/retry_after_seconds'

/** Thrown instead of running a tool, or instead of its result. The client receives `result`. */
export class LimitReached extends Error {
  readonly reached: ReachedLimit
  readonly result: CallToolResult
  /** `true` if the handler has been called. */
  readonly hasRun: boolean

  constructor(option: keyof typeof LIMITS, reach: Reach) {
    const { name, hasRun, text } = LIMITS[option]
    const { max, actual, retryAfterSeconds } = reach
    const retry =
      retryAfterSeconds === undefined ? '' : ` Try again in ${counted(retryAfterSeconds, 'second')}.`
    super(text(reach) + retry)
    this.reached = { limit: name, max, actual }
    this.hasRun = hasRun
    this.result = {
      content: [{ type: 'text', text: this.message }],
      isError: true,
      ...(retryAfterSeconds !== undefined && { _meta: { [RETRY_META_KEY]: retryAfterSeconds } }),
    }
  }

  /** Returns `thrown` if it is a reached limit. Values of the application may be proxies, which make `instanceof` throw. */
  static in(thrown: unknown): LimitReached | undefined {
    return tryOrUndefined(() => (thrown instanceof LimitReached ? thrown : undefined))
  }
}

/** A caller, as limits count it. */
export interface CallerKey {
  /** Has at most 60 characters. Names of users and clients are hashed. Keys of different kinds never collide. */
  readonly key: string
  /** `true` for a key that anyone can have many of without signing in. */
  readonly isAddress: boolean
  /** The callers that are counted like this one, as in the errors of limits. */
  readonly scope: string
}

/** Returns the caller of a request. A request without a token is counted by address. */
export function callerKey(exchange: Exchange, by: LimitedBy): CallerKey {
  const { auth } = exchange
  if (auth === undefined || by === 'address') return addressKey(exchange)
  const client = by === 'client' ? clientOf(auth) : undefined
  return client === undefined
    ? { key: userKey(ownerOf(auth)), isAddress: false, scope: 'each user' }
    : { key: `client:${hashOf(client)}`, isAddress: false, scope: 'each client' }
}

/** Returns the key of a user. @param owner as `ownerOf` returns it */
export function userKey(owner: string): string {
  return `user:${hashOf(owner)}`
}

/** Identifies the client of a token. Returns undefined if the verifier did not name it. */
function clientOf(auth: AuthInfo): string | undefined {
  return auth.clientId === '' ? undefined : JSON.stringify([tokenIssuer(auth) ?? null, auth.clientId])
}

/** Callers without a known address count as one caller. */
function addressKey({ gate, context }: Exchange): CallerKey {
  const request = RequestContext.requestOf(context)
  const key = request && (gate === undefined ? clientKey(request.clientAddress) : gate.clientKey(request))
  return key === undefined
    ? { key: 'address:unknown', isAddress: true, scope: 'all callers without a known address' }
    : { key: `address:${key}`, isAddress: true, scope: 'each address' }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}
