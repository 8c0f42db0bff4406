import type { StandardSchemaV1 } from '@standard-schema/spec'
import { settledWithin } from '../delivery/deadline.ts'
import { copyActor, copyScope } from '../envelope/build-envelope.ts'
import type {
  TelemetryActor,
  TelemetryAttributes,
  TelemetryEmitInput,
  TelemetryScope,
} from '../envelope/envelope.ts'
import { toRedactedJson } from '../envelope/redacted-json.ts'
import { KEEP_EVERYTHING } from '../envelope/redaction.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryEventMap } from '../events/schema.ts'
import {
  activeRun,
  contextHere,
  contextOf,
  runInside,
  type SessionContext,
  type SessionRecord,
} from './context.ts'

/** How long `end()` waits for events under way. */
const END_TIMEOUT_MS = 30_000

/** A copy of what a session knows; changing it changes nothing. */
export interface TelemetrySessionState {
  /** What its events have as `sessionId`. */
  sessionId: string
  /** ISO 8601. */
  startedAt: string
  /** Whether `end()` was called. */
  ended: boolean
  /** Who acts. */
  actor?: TelemetryActor
  /** What it belongs to. */
  scope?: TelemetryScope
  /** What every event of the session has, unless it says otherwise. */
  attributes: Record<string, unknown>
}

/** The attributes an event takes, by its schema. */
export type TelemetryEventAttributes<Schema> = Schema extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Schema>
  : TelemetryAttributes

/** Emits within the context of a session; what a manager gives to its sessions. */
export type SessionEmit = (
  name: string,
  input: TelemetryEmitInput | undefined,
  context: () => SessionContext,
) => void

/**
 * Binds actor, scope and attributes to a run of code. Made by `manager.session()`.
 *
 * A session is active until `end()`; afterwards `actor`, `scope`, `attributes`, `id`, `emit` and `run` fail with
 * `TELEMETRY_SESSION_ENDED`. Made inside a run of another session of the same manager, it starts with that one's
 * actor, scope and attributes.
 */
export class KitTelemetrySession<
  Actors extends string = any,
  Scopes extends string = any,
  Events extends TelemetryEventMap = any,
> {
  readonly #record: SessionRecord
  readonly #emit: SessionEmit
  readonly #context: () => SessionContext
  #ending: Promise<void> | undefined

  private constructor(record: SessionRecord, emit: SessionEmit) {
    this.#record = record
    this.#emit = emit
    this.#context = () => contextHere(record)
  }

  /** What `manager.session()` gives. @internal */
  static of<Actors extends string, Scopes extends string, Events extends TelemetryEventMap>(
    record: SessionRecord,
    emit: SessionEmit,
  ): KitTelemetrySession<Actors, Scopes, Events> {
    return new KitTelemetrySession(record, emit)
  }

  /**
   * The state of the innermost run, of whatever manager, whose session has not ended; `undefined` outside of any.
   * A deep copy.
   */
  static getActive(): TelemetrySessionState | undefined {
    const node = activeRun()
    return node && stateOf(node.session, contextOf(node.session, node))
  }

  /**
   * Sets who acts.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` when an argument is malformed. Whether the type was
   * registered is checked when an event is emitted.
   */
  actor(type: Actors, id?: string, tags?: TelemetryAttributes): this {
    this.#change('actor', () => ({ actor: frozenCopy(copyActor({ type, id, tags })) }))
    return this
  }

  /** Sets what the events belong to. @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` when an argument is malformed */
  scope(type: Scopes, id: string, tags?: TelemetryAttributes): this {
    this.#change('scope', () => ({ scope: frozenCopy(copyScope({ type, id, tags })) }))
    return this
  }

  /**
   * Merges attributes into the session's; the later wins. They are copied here and now.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` when `attributes` is no object of values by key
   */
  attributes(attributes: TelemetryAttributes): this {
    this.#change('attributes', () => ({
      attributes: Object.freeze({ ...this.#record.own.attributes, ...plainCopy(attributes) }),
    }))
    return this
  }

  /** Sets a session id of one's own. @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` when it is empty or no string */
  id(sessionId: string): this {
    this.#refuseEnded('id')
    if (typeof sessionId !== 'string' || sessionId === '') {
      throw invalid('id() takes a string that is not empty')
    }
    this.#record.id = sessionId
    return this
  }

  /**
   * Emits an event in the context of this session. See `KitTelemetryManager.emit`.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_ENDED`, and what `KitTelemetryManager.emit` throws
   */
  emit<Name extends keyof Events & string>(
    name: Name,
    input?: TelemetryEmitInput<TelemetryEventAttributes<Events[Name]>, Actors, Scopes>,
  ): void
  emit(name: `kit.mcp.${string}`, input?: TelemetryEmitInput): void
  emit(name: string, input?: TelemetryEmitInput): void {
    this.#refuseEnded('emit')
    this.#emit(name, input, this.#context)
  }

  /**
   * Runs `fn` with this session as the ambient one: `manager.emit` inside carries its context, across `await`, timers
   * and event emitters. Does not end the session.
   * @returns what `fn` returns; rejects with what it throws, with `TELEMETRY_SESSION_ENDED`, or with
   * `TELEMETRY_SESSION_INVALID` when `fn` is no function
   */
  async run<T>(fn: () => T): Promise<Awaited<T>> {
    this.#refuseEnded('run')
    if (typeof fn !== 'function') throw invalid('run() takes a function')
    return await runInside(this.#record, fn)
  }

  /**
   * Ends the session. Further calls return the same promise.
   * @returns resolves when every event emitted by the session, or by the manager inside its runs, is delivered or has
   * failed for good, after 30 seconds at the latest (on a timer that does not keep the process alive); never rejects
   */
  end(): Promise<void> {
    this.#ending ??= this.#end()
    return this.#ending
  }

  /** What the session knows, what it inherited included. A deep copy. */
  getState(): TelemetrySessionState {
    return stateOf(this.#record, contextHere(this.#record))
  }

  #end(): Promise<void> {
    this.#record.ended = true
    const { pending } = this.#record
    if (pending.count === 0) return Promise.resolve()
    return settledWithin(END_TIMEOUT_MS, (done) => pending.whenSettled(done))
  }

  #change(method: string, change: () => Partial<SessionRecord['own']>): void {
    this.#refuseEnded(method)
    let changed: Partial<SessionRecord['own']>
    try {
      changed = change()
    } catch (cause) {
      const why = KitTelemetryError.is(cause) ? `: ${cause.message}` : ''
      throw invalid(`${method}() was called with something it cannot use${why}`, cause)
    }
    this.#record.own = { ...this.#record.own, ...changed }
  }

  #refuseEnded(method: string): void {
    if (this.#record.ended) {
      throw new KitTelemetryError(
        'TELEMETRY_SESSION_ENDED',
        `${method}() was called on a session that has ended; make a new one with manager.session()`,
      )
    }
  }
}

/** Makes values JSON without redacting or cutting them: a session's state stays the application's own. */
function plainCopy(values: unknown): Readonly<Record<string, unknown>> {
  const copy =
    typeof values === 'object' && values !== null && !Array.isArray(values)
      ? toRedactedJson(values, KEEP_EVERYTHING)
      : undefined
  if (copy === undefined) throw invalid('attributes must be an object of values by key')
  return copy
}

function frozenCopy<T extends TelemetryActor | TelemetryScope>(participant: T): T {
  const { tags } = participant
  return Object.freeze(tags === undefined ? participant : { ...participant, tags: plainCopy(tags) })
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

function invalid(message: string, cause?: unknown): KitTelemetryError {
  return new KitTelemetryError('TELEMETRY_SESSION_INVALID', message, cause === undefined ? {} : { cause })
}
