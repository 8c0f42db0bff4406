import type { StandardSchemaV1 } from '@standard-schema/spec'
import { isRecord } from '../../base/options/value-kinds.ts'
import { withDeadline } from '../delivery/pending-work.ts'
import { copyActor, copyScope, type ReportMember, readSessionId } from '../envelope/build-envelope.ts'
import type {
  TelemetryActor,
  TelemetryAttributes,
  TelemetryEmitInput,
  TelemetryId,
  TelemetryRequiredInput,
  TelemetryScope,
} from '../envelope/envelope.ts'
import { setOwn, toRedactedJson } from '../envelope/redacted-json.ts'
import { KEEP_EVERYTHING } from '../envelope/redaction.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryEventMap } from '../events/schema.ts'
import { errorWithHelp } from '../options.ts'
import {
  activeRun,
  ambientRequest,
  contextHere,
  contextOf,
  runInside,
  type SessionContext,
  type SessionRecord,
} from './context.ts'
import { type ReportIgnored, RequestAttributes } from './request-attributes.ts'

/** The time that `end()` waits for pending events. */
const END_TIMEOUT_MS = 30_000

/** The state of a session. It is a copy, so changes to it have no effect. */
export interface TelemetrySessionState {
  /** The `sessionId` of its events. */
  sessionId: string
  /** The time at which the session was created, in ISO 8601. */
  startedAt: string
  /** `true` after `end()` was called. */
  ended: boolean
  /** The actor of its events. */
  actor?: TelemetryActor
  /** The scope of its events. */
  scope?: TelemetryScope
  /** The attributes of its events. An event may override them. */
  attributes: Record<string, unknown>
}

/** The attributes of an event, derived from its schema. */
export type TelemetryEventAttributes<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Schema>
  : TelemetryAttributes

/** The names that `emit` accepts: the full keys of the registered events, and the events of this package. */
export type TelemetryEventName<Events> = (keyof Events & string) | `kit.${'mcp' | 'authorization'}.${string}`

/**
 * The arguments of `emit` after the name. The input may be omitted if the schema of the event accepts an empty object or
 * `undefined`.
 */
export type TelemetryEmitArguments<
  Name,
  Events,
  Actors extends string = string,
  Scopes extends string = string,
> = Name extends keyof Events
  ? Record<never, never> extends TelemetryEventAttributes<Events[Name]>
    ? [input?: TelemetryEmitInput<TelemetryEventAttributes<Events[Name]>, Actors, Scopes>]
    : undefined extends TelemetryEventAttributes<Events[Name]>
      ? [input?: TelemetryEmitInput<TelemetryEventAttributes<Events[Name]>, Actors, Scopes>]
      : [input: TelemetryRequiredInput<TelemetryEventAttributes<Events[Name]>, Actors, Scopes>]
  : [input?: TelemetryEmitInput]

/** Emits an event in the context of a session. A manager passes this function to its sessions. */
export type SessionEmit = (
  name: string,
  input: TelemetryEmitInput | undefined,
  context: () => SessionContext,
) => void

/**
 * Adds an actor, a scope, and attributes to the events of a run of code. `manager.session()` creates it. A telemetry
 * session is not an MCP session.
 *
 * A session is active until `end()`. After that, `actor`, `scope`, `attributes`, `id`, `emit`, and `run` fail with
 * `TELEMETRY_SESSION_ENDED`. A session that is created inside a run of another session of the same manager starts with the
 * actor, scope, and attributes of that session.
 *
 * @example
 * ```ts
 * import { KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * const telemetry = KitTelemetry.create().build()
 * const session = telemetry.session().actor('user', 'u1').attributes({ plan: 'pro' })
 * await session.run(async () => {
 *   telemetry.emit('report.created') // has the actor and the attributes of the session
 * })
 * await session.end()
 * ```
 * @see docs/guides/telemetry.md
 */
export class KitTelemetrySession<
  Actors extends string = any,
  Scopes extends string = any,
  Events extends TelemetryEventMap = any,
> {
  readonly #record: SessionRecord
  readonly #emit: SessionEmit
  readonly #reportIgnored: ReportIgnored
  readonly #context: () => SessionContext
  #ending: Promise<void> | undefined

  private constructor(record: SessionRecord, emit: SessionEmit, reportIgnored: ReportIgnored) {
    this.#record = record
    this.#emit = emit
    this.#reportIgnored = reportIgnored
    this.#context = () => contextHere(record)
  }

  /** Creates the session for `manager.session()`. @internal */
  static of<Actors extends string, Scopes extends string, Events extends TelemetryEventMap>(
    record: SessionRecord,
    emit: SessionEmit,
    reportIgnored: ReportIgnored,
  ): KitTelemetrySession<Actors, Scopes, Events> {
    return new KitTelemetrySession(record, emit, reportIgnored)
  }

  /**
   * Returns the state of the innermost run whose session has not ended, of any manager.
   * @returns a deep copy, or `undefined` outside of all runs.
   */
  static getActive(): TelemetrySessionState | undefined {
    const node = activeRun()
    return node && stateOf(node.session, contextOf(node.session, node))
  }

  /**
   * Sets the actor of the events.
   * @param type the type of the actor. Events with an unregistered type are rejected when they are emitted.
   * @param id the id of the actor.
   * @param tags further data about the actor.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if an argument is malformed; `TELEMETRY_SESSION_ENDED`.
   */
  actor(type: Actors, id?: TelemetryId, tags?: TelemetryAttributes): this {
    this.#change('actor', () => ({ actor: frozenCopy(copyActor({ type, id, tags }, reject)) }))
    return this
  }

  /**
   * Sets the scope of the events, such as an organization.
   * @param type the type of the scope. Events with an unregistered type are rejected when they are emitted.
   * @param id the id of the scope.
   * @param tags further data about the scope.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if an argument is malformed; `TELEMETRY_SESSION_ENDED`.
   */
  scope(type: Scopes, id: TelemetryId, tags?: TelemetryAttributes): this {
    this.#change('scope', () => ({ scope: frozenCopy(copyScope({ type, id, tags }, reject)) }))
    return this
  }

  /**
   * Merges attributes into those of the session. Later values override earlier ones.
   * @param attributes the attributes. They are copied at once.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if `attributes` is not an object; `TELEMETRY_SESSION_ENDED`.
   */
  attributes(attributes: TelemetryAttributes): this {
    this.#change('attributes', () => ({
      attributes: withAttributes(this.#record.own.attributes, plainCopy(attributes)),
    }))
    return this
  }

  /**
   * Adds attributes to the event that ends the request, such as `kit.mcp.request.completed` or `http.request.completed`. A later
   * value replaces an earlier one. The request is the one of this session, or else the nearest one around the call, or else
   * the one in which the session was created.
   *
   * These attributes are ignored, and reported to the logger: those after the end of the request or outside of a request,
   * those whose names this package sets, and those beyond 128 attributes or 65,536 characters of JSON.
   * @param attributes the attributes. They are copied at once, and redacted when the event is emitted.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if `attributes` is not an object.
   * @example
   * ```ts
   * import { KitMcpRouter } from 'mcp-gatekit'
   *
   * KitMcpRouter.create().tool('report', { description: 'Writes a report' }, (_args, { auth, session }) => {
   *   session?.set({ 'client.id': auth?.clientId, 'gen_ai.usage.output_tokens': 1200 })
   *   return 'The report is ready.'
   * })
   * ```
   * @see docs/guides/mcp-telemetry.md
   */
  set(attributes: TelemetryAttributes): this {
    const { manager, request, outerRequest } = this.#record
    addToRequest(request ?? ambientRequest(manager) ?? outerRequest, attributes, this.#reportIgnored)
    return this
  }

  /** Makes this session the session of a request. @returns the attributes that `set` adds. @internal */
  beginRequest(): RequestAttributes {
    this.#record.request = new RequestAttributes()
    return this.#record.request
  }

  /** Runs a function in this session like `run`, but returns what it returns. @internal */
  runNow<T>(fn: () => T): T {
    return runInside(this.#record, fn)
  }

  /**
   * Replaces the session id.
   * @param sessionId a string that is not empty, a number, or an object with a `toString` of its own.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if the id is empty or cannot be read; `TELEMETRY_SESSION_ENDED`.
   */
  id(sessionId: TelemetryId): this {
    this.#rejectIfEnded('id')
    const id = readSessionId({ sessionId }, () => {})
    if (id === undefined) throw invalid('the argument of id() must be a non-empty string')
    this.#record.id = id
    return this
  }

  /**
   * Emits an event in the context of this session. See `KitTelemetryManager.emit`.
   * @param name the full key of the event.
   * @param input the attributes and other members of the event. It may be omitted unless the schema of the event has required
   * attributes.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_ENDED`, and the errors of `KitTelemetryManager.emit`.
   */
  emit<Name extends TelemetryEventName<Events>>(
    name: Name,
    ...input: TelemetryEmitArguments<Name, Events, Actors, Scopes>
  ): void
  emit(name: string, input?: TelemetryEmitInput): void {
    this.#rejectIfEnded('emit')
    this.#emit(name, input, this.#context)
  }

  /**
   * Runs a function in this session: events that it emits with `manager.emit` have the context of the session, also after
   * `await`, in timers, and in event emitters. Does not end the session.
   * @param fn the function to run.
   * @returns a promise of the result of `fn`. It rejects with the error of `fn`, with `TELEMETRY_SESSION_ENDED`, or with
   * `TELEMETRY_SESSION_INVALID` if `fn` is not a function.
   */
  async run<T>(fn: () => T): Promise<Awaited<T>> {
    this.#rejectIfEnded('run')
    if (typeof fn !== 'function') throw invalid('the argument of run() must be a function')
    // A thenable, such as a query, starts when it is awaited, which must be in the run.
    return await runInside(this.#record, async () => await fn())
  }

  /**
   * Ends the session. Further calls return the same promise.
   * @returns a promise that resolves when the events of the session and of its runs are delivered or have failed, but after
   * 30 seconds at the latest. It never rejects, and its timer does not keep the process alive unless it is awaited.
   */
  end(): Promise<void> {
    this.#ending ??= this.#end()
    return this.#ending
  }

  /**
   * Returns the state of the session, including inherited values.
   * @returns a deep copy.
   */
  getState(): TelemetrySessionState {
    return stateOf(this.#record, contextHere(this.#record))
  }

  #end(): Promise<void> {
    this.#record.ended = true
    const { pending, tail } = this.#record
    tail?.end()
    if (pending.count === 0) return Promise.resolve()
    return withDeadline(END_TIMEOUT_MS, (deadline) => pending.settled(deadline))
  }

  #change(method: string, change: () => Partial<SessionRecord['own']>): void {
    this.#rejectIfEnded(method)
    let changed: Partial<SessionRecord['own']>
    try {
      changed = change()
    } catch (cause) {
      throw argumentsError(method, cause)
    }
    this.#record.own = { ...this.#record.own, ...changed }
  }

  #rejectIfEnded(method: string): void {
    if (this.#record.ended) {
      throw errorWithHelp(
        'TELEMETRY_SESSION_ENDED',
        `${method}() was called on a session that has ended. Create a new one with manager.session()`,
      )
    }
  }
}

/**
 * Adds attributes to the event that ends a request.
 * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if `attributes` is not an object.
 */
export function addToRequest(
  request: RequestAttributes | undefined,
  attributes: unknown,
  report: ReportIgnored,
): void {
  if (request === undefined || request.isComplete) {
    if (!isRecord(attributes)) throw argumentsError('set', invalid('attributes must be an object'))
    const reason =
      request === undefined
        ? 'outside of a request. Call it in a handler, or in the run of its session'
        : 'after the end of the request. Call it before the response has ended'
    report('set-late', `set() was ignored, because it was called ${reason}`)
  } else {
    request.add(copyForSet(attributes), report)
  }
}

function copyForSet(attributes: unknown): Readonly<Record<string, unknown>> {
  try {
    return plainCopy(attributes)
  } catch (cause) {
    throw argumentsError('set', cause)
  }
}

/** Copies values as JSON without redacting them, because the state of a session is for the application. */
function plainCopy(values: unknown): Readonly<Record<string, unknown>> {
  const copy = isRecord(values) ? toRedactedJson(values, KEEP_EVERYTHING) : undefined
  if (copy === undefined) throw invalid('attributes must be an object')
  return copy
}

/**
 * Merges attributes. Those so far are copied only if they are frozen, which they are from the time when they were read, so that
 * adding them one by one takes linear time.
 */
function withAttributes(
  before: Readonly<Record<string, unknown>> | undefined,
  added: Readonly<Record<string, unknown>>,
): Readonly<Record<string, unknown>> {
  if (before === undefined || Object.isFrozen(before)) return { ...before, ...added }
  for (const [key, value] of Object.entries(added)) setOwn(before as Record<string, unknown>, key, value)
  return before
}

const reject: ReportMember = (problem) => {
  throw problem
}

function frozenCopy<T extends TelemetryActor | TelemetryScope>(value: T | undefined): T {
  if (value === undefined) throw invalid('type is missing')
  const { tags } = value
  return Object.freeze(tags === undefined ? value : { ...value, tags: plainCopy(tags) })
}

function stateOf(
  session: SessionRecord,
  { actor, scope, attributes }: SessionContext,
): TelemetrySessionState {
  return structuredClone({
    sessionId: session.id,
    startedAt: session.startedAt,
    ended: session.ended,
    ...(actor === undefined ? {} : { actor }),
    ...(scope === undefined ? {} : { scope }),
    attributes: attributes ?? {},
  })
}

function argumentsError(method: string, cause: unknown): KitTelemetryError {
  const why = KitTelemetryError.is(cause) ? `: ${cause.message}` : ''
  return invalid(`the arguments of ${method}() are invalid${why}`, cause)
}

function invalid(message: string, cause?: unknown): KitTelemetryError {
  return errorWithHelp('TELEMETRY_SESSION_INVALID', message, cause === undefined ? {} : { cause })
}
