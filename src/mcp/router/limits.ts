import { counted } from '../../base/options/counted.ts'
import { isOptionsObject, type OptionChecks } from '../../base/options/option-checks.ts'
import { type OptionRule, type OptionRules, optional } from '../../base/options/option-rules.ts'
import type { RateLimiterLike } from '../../oauth/limits/rate-limiter.ts'
import type { Exchange, ReachedLimit, TimedCall } from '../wire/exchange.ts'
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

/** A limit that is a number by itself. Of those of the adapter and of a tool, the smaller one applies. */
export type Bounds = Omit<McpLimits, 'calls' | 'concurrency' | 'store'>

/** A limit that a call has reached, as its text tells it. */
export interface Reach extends Omit<ReachedLimit, 'limit'> {
  /** The tool whose limit was reached. Undefined for a count of the adapter. */
  readonly tool: string | undefined
  readonly perSeconds?: number
  /** The callers that are counted together, such as `each user`. */
  readonly scope?: string
  readonly retryAfterSeconds?: number
}

interface LimitRule {
  /** An example, and the rules of the members. Absent for a whole number from 1. */
  readonly members?: readonly [example: string, rules: (of: OptionChecks) => OptionRules]
  /** The name of the limit in telemetry. */
  readonly name: string
  /** `true` if the handler has been called when the limit is reached. */
  readonly hasRun: boolean
  /** The text for the client, without the time after which it may try again. */
  readonly text: (reach: Reach) => string
  /** The text in the console of `dev`. */
  readonly shown: (max: string, actual: string) => string
}

const callers = (of: OptionChecks): OptionRule<LimitedBy> => of.oneOf(['user', 'client', 'address'])
const callsOf = ({ tool, max }: Reach): string =>
  tool === undefined ? counted(max, 'tool call') : `${counted(max, 'call')} of tool ${tool}`

/** Every limit by its option: its rule, and its texts. */
export const LIMITS = {
  calls: {
    members: [
      `{ max: 60, perSeconds: 60, by: 'user' }`,
      (of) => ({ max: of.wholeNumber(1), perSeconds: of.seconds('more than 0'), by: callers(of) }),
    ],
    name: 'calls',
    hasRun: false,
    text: (reach) =>
      `Call limit reached: at most ${callsOf(reach)} per ${counted(reach.perSeconds as number, 'second')} for ${reach.scope}.`,
    shown: (max, actual) => `call ${actual} in a period that allows ${max}`,
  },
  concurrency: {
    members: [`{ max: 4, by: 'user' }`, (of) => ({ max: of.wholeNumber(1), by: callers(of) })],
    name: 'concurrency',
    hasRun: false,
    text: (reach) =>
      `Concurrency limit reached: at most ${callsOf(reach)} at the same time for ${reach.scope}.`,
    shown: (max) => `more than ${max} at the same time`,
  },
  timeoutMs: {
    name: 'timeout',
    hasRun: true,
    text: ({ tool, max }) =>
      `Time limit reached: tool ${tool} did not finish within ${max} ms. Try again later, or ask for less.`,
    shown: (max) => `not finished within ${max} ms`,
  },
  maxResultBytes: {
    name: 'result_size',
    hasRun: true,
    text: ({ tool, max, actual }) =>
      `Result limit reached: the result of tool ${tool} has ${actual} bytes, and at most ${max} bytes are allowed. Ask for less.`,
    shown: (max, actual) => `a result of ${actual} bytes, and at most ${max} are allowed`,
  },
} satisfies Readonly<Record<Exclude<keyof McpLimits, 'store'>, LimitRule>>

/**
 * Returns a copy of `limits`.
 * @param owner the tool, such as `tool 'search'`. Undefined for the adapter.
 * @throws {KitMcpConfigError} if a limit is invalid.
 */
export function checkLimits(of: OptionChecks, limits: unknown, owner?: string): McpLimits {
  const named = (option: string): string => (owner === undefined ? option : `${option} of ${owner}`)
  /** Reads an object whose members are named `limits.calls.max of tool 'search'` in errors. */
  const read = (option: string, example: string, value: unknown, rules: OptionRules): object => {
    if (!isOptionsObject(value))
      throw of.invalidKind(named(option), `must be an object such as ${example}`, value)
    of.checkKnownMembers(named(option), value, Object.keys(rules))
    const given = value as Readonly<Record<string, unknown>>
    const resolved = Object.entries(rules).map(([member, rule]) => [
      member,
      rule(named(`${option}.${member}`), given[member], given),
    ])
    return Object.freeze(Object.fromEntries(resolved))
  }
  const rules = Object.entries<LimitRule>(LIMITS).map(([option, { members }]) => {
    if (members === undefined) return [option, optional(of.wholeNumber(1))]
    const [example, rulesOf] = members
    return [option, optional((_option, value) => read(`limits.${option}`, example, value, rulesOf(of)))]
  })
  return read('limits', `{ calls: { max: 60, perSeconds: 60, by: 'user' } }`, limits, {
    ...Object.fromEntries(rules),
    store: optional(
      of.callable<LimitStore>(
        'set it to a function ({ points, duration, keyPrefix }) => limiter of rate-limiter-flexible',
      ),
    ),
  })
}
