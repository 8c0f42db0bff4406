import type { RateLimiterLike } from '../../oauth/rate-limiter.ts'
import { isOptionsObject, type OptionChecks } from '../../options/option-checks.ts'
import { MAX_TIMER_MS } from '../../timers.ts'
import type { Exchange } from '../wire/exchange.ts'
import type { TimedCall } from '../wire/request-telemetry.ts'
import type { KitContext } from './context.ts'

/**
 * The callers that a limit counts separately: users, OAuth clients, or IP addresses. A user is identified by issuer and
 * subject, and a client by issuer and client ID. Calls without a token are always counted by address.
 */
export type LimitedBy = 'user' | 'client' | 'address'

/** A limit for the number of tool calls in a period. */
export interface CallLimit {
  /** The number of calls that a caller may make in `perSeconds`. */
  readonly max: number
  /** The length of the period in seconds. It begins with the first call of the caller. */
  readonly perSeconds: number
  /** The callers that are counted separately. */
  readonly by: LimitedBy
}

/** A limit for the number of tool calls in progress. */
export interface ConcurrencyLimit {
  /** The number of calls that a caller may have in progress on one node. */
  readonly max: number
  /** The callers that are counted separately. */
  readonly by: LimitedBy
}

/** The argument of a `LimitStore`. */
export interface LimitStoreOptions {
  /** The number of calls in a period. */
  readonly points: number
  /** The length of the period in whole seconds. */
  readonly duration: number
  /** The prefix of all keys of the limit. It is the same on every node. */
  readonly keyPrefix: string
}

/**
 * Creates a limiter of `rate-limiter-flexible`, through which nodes share the counts of calls. Called once per `calls` limit,
 * when the adapter is created.
 */
export type LimitStore = (options: LimitStoreOptions) => RateLimiterLike

/** Limits for tool calls. A call beyond a limit gets a tool result with `isError: true` that names the limit. */
export interface McpLimits {
  /** The maximum number of calls in a period. Unlimited by default. */
  readonly calls?: CallLimit | undefined
  /** The maximum number of calls in progress. Counted on each node separately. Unlimited by default. */
  readonly concurrency?: ConcurrencyLimit | undefined
  /**
   * The time in which a call must finish, in milliseconds. After it, `context.signal` aborts, and the client receives an
   * error. Unlimited by default.
   */
  readonly timeoutMs?: number | undefined
  /**
   * The maximum size of a result, in UTF-8 bytes of its JSON. A larger result is replaced by an error; it is never cut.
   * Unlimited by default.
   */
  readonly maxResultBytes?: number | undefined
  /**
   * Creates the limiter that counts `calls`, so that nodes share the counts. If it fails, calls pass. A tool without a `store`
   * uses that of the adapter. By default, each node counts in memory.
   */
  readonly store?: LimitStore | undefined
}

/** The parts of a call by which it is counted. */
export interface CountedCall {
  readonly exchange: Exchange
  /** The call, for telemetry. */
  readonly timed: TimedCall
}

/** The parts of a call that its limits use. */
export interface LimitedCall extends CountedCall {
  /** The context of the handler. Its signal is replaced if the call has a timeout. */
  readonly context: { -readonly [Member in keyof KitContext]: KitContext[Member] }
}

/** The limits of one tool in one adapter. */
export interface ToolLimiter {
  /**
   * Counts a call.
   * @returns a function that ends it as a call in progress; further calls have no effect
   * @throws the limit that was reached
   */
  begin(call: CountedCall): Promise<() => void>
  /**
   * Runs a tool within its limits.
   * @param end ends a call that `begin` has counted. Without it, the call is counted.
   * @throws the limit that was reached, or the error of `run`
   */
  run<Result extends object>(
    call: LimitedCall,
    run: () => Promise<Result>,
    end?: (() => void) | undefined,
  ): Promise<Result>
  /** Returns the limit that a result exceeds, if it does. */
  exceededBy(result: object): object | undefined
}

const MEMBERS = ['calls', 'concurrency', 'timeoutMs', 'maxResultBytes', 'store']

/**
 * Returns a copy of `limits`.
 * @param owner the tool, such as `tool 'search'`. Undefined for the adapter.
 * @throws {KitMcpConfigError} if a limit is invalid.
 */
export function checkLimits(of: OptionChecks, limits: unknown, owner?: string): McpLimits {
  const named = (option: string): string => (owner === undefined ? option : `${option} of ${owner}`)
  if (!isOptionsObject(limits))
    throw of.invalidKind(
      named('limits'),
      `must be an object such as { calls: { max: 60, perSeconds: 60, by: 'user' } }`,
      limits,
    )
  of.checkKnownMembers(named('limits'), limits, MEMBERS)
  const { calls, concurrency, timeoutMs, maxResultBytes, store } = limits as Partial<
    Record<keyof McpLimits, unknown>
  >
  if (store !== undefined)
    of.checkFunction(
      named('limits.store'),
      store,
      'set it to a function ({ points, duration, keyPrefix }) => limiter of rate-limiter-flexible',
    )
  return Object.freeze({
    calls: calls === undefined ? undefined : checkCalls(of, calls, named),
    concurrency: concurrency === undefined ? undefined : checkConcurrency(of, concurrency, named),
    timeoutMs:
      timeoutMs === undefined
        ? undefined
        : of.checkWholeNumber(named('limits.timeoutMs'), timeoutMs, 1, MAX_TIMER_MS),
    maxResultBytes:
      maxResultBytes === undefined
        ? undefined
        : of.checkWholeNumber(named('limits.maxResultBytes'), maxResultBytes, 1),
    store: store as LimitStore | undefined,
  })
}

function checkCalls(of: OptionChecks, calls: unknown, named: (option: string) => string): CallLimit {
  const option = named('limits.calls')
  if (!isOptionsObject(calls))
    throw of.invalidKind(option, `must be an object such as { max: 60, perSeconds: 60, by: 'user' }`, calls)
  of.checkKnownMembers(option, calls, ['max', 'perSeconds', 'by'])
  const { max, perSeconds, by } = calls as Partial<Record<keyof CallLimit, unknown>>
  return Object.freeze({
    max: of.checkWholeNumber(named('limits.calls.max'), max, 1),
    perSeconds: of.checkSeconds(named('limits.calls.perSeconds'), perSeconds, 'more than 0'),
    by: checkBy(of, named('limits.calls.by'), by),
  })
}

function checkConcurrency(
  of: OptionChecks,
  concurrency: unknown,
  named: (option: string) => string,
): ConcurrencyLimit {
  const option = named('limits.concurrency')
  if (!isOptionsObject(concurrency))
    throw of.invalidKind(option, `must be an object such as { max: 4, by: 'user' }`, concurrency)
  of.checkKnownMembers(option, concurrency, ['max', 'by'])
  const { max, by } = concurrency as Partial<Record<keyof ConcurrencyLimit, unknown>>
  return Object.freeze({
    max: of.checkWholeNumber(named('limits.concurrency.max'), max, 1),
    by: checkBy(of, named('limits.concurrency.by'), by),
  })
}

function checkBy(of: OptionChecks, option: string, by: unknown): LimitedBy {
  return of.checkOneOf(option, by, ['user', 'client', 'address'])
}
