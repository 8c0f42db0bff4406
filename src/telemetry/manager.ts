import { quotedName } from '../options/describe-value.ts'
import { didYouMean } from '../options/nearest-name.ts'
import type { TelemetryConfig } from './config.ts'
import { settledWithin } from './delivery/deadline.ts'
import { Delivery } from './delivery/delivery.ts'
import { PendingWork } from './delivery/pending-work.ts'
import { Reporter } from './delivery/reporter.ts'
import type { TelemetryStats } from './delivery/transport.ts'
import {
  buildEnvelope,
  checkAttributes,
  type EnvelopeOrigin,
  readSessionId,
  resolveAttributes,
} from './envelope/build-envelope.ts'
import type { TelemetryEmitInput } from './envelope/envelope.ts'
import { KeyRules } from './envelope/redaction.ts'
import { Redactor } from './envelope/redactor.ts'
import { createSessionId } from './envelope/session-id.ts'
import { isoTime } from './envelope/time.ts'
import { KitTelemetryError } from './errors.ts'
import { TypeRule } from './events/actor-types.ts'
import { BUILT_IN_PREFIX, checkEventName } from './events/event-name.ts'
import type { TelemetryEventMap, TelemetryEventSchema } from './events/schema.ts'
import { attributesError, isValidationOn } from './events/validation.ts'
import type { TelemetryLevel } from './levels.ts'
import { activeRun, contextOf, inheritance, type SessionContext, SessionRecord } from './session/context.ts'
import { Sampler, sessionDraw } from './session/sampling.ts'
import { KitTelemetrySession, type TelemetryEventAttributes } from './session/session.ts'

/** Milliseconds that `flush` and `shutdown` wait when they are not told otherwise. */
const DEFAULT_TIMEOUT_MS = 30_000

/** How many event names, beside the registered ones, keep what is known of them. */
const MAX_NAMES = 4096

/** What an event without input has. */
const NO_INPUT: TelemetryEmitInput = Object.freeze({})

/** How long `flush()` or `shutdown()` may take. */
export interface TelemetryDeadlineOptions {
  /** Milliseconds. Default 30 000. While it is awaited, the process stays alive so long. */
  readonly timeoutMs?: number | undefined
}

/** What is known of an event name. */
interface ResolvedEvent {
  /** Exempt from validation. */
  readonly builtIn: boolean
  /** Present when the attributes are to be validated. */
  readonly schema: { readonly schema: TelemetryEventSchema; readonly strict: boolean } | undefined
  readonly fixedRate: 0 | 1 | undefined
}

/**
 * Emits events: checks, samples, redacts them and hands them to every transport. Made by `KitTelemetry.build()`.
 * Without type arguments, this is the type of a manager with any actors, scopes and events.
 */
export class KitTelemetryManager<
  Actors extends string = any,
  Scopes extends string = any,
  Events extends TelemetryEventMap = any,
> {
  /** As given to `withService`. */
  readonly service: string
  /** As given to `withEnvironment`. */
  readonly environment: string
  /** As given to `withVersion`. */
  readonly version: string | undefined

  readonly #origin: EnvelopeOrigin
  readonly #sampler: Sampler
  readonly #redactor: Redactor
  readonly #reporter: Reporter
  readonly #delivery: Delivery
  readonly #registered: ReadonlyMap<string, ResolvedEvent['schema']> | undefined
  readonly #actors: TypeRule | undefined
  readonly #scopes: TypeRule | undefined
  readonly #resolved = new Map<string, ResolvedEvent>()
  readonly #warn: (error: KitTelemetryError) => void
  #emitted = 0
  #sampledOut = 0
  #droppedAfterShutdown = 0
  #isShutDown = false
  #shutdown: Promise<void> | undefined
  /** The shutdown, for those who wait for it. */
  readonly #closing = new PendingWork()

  private constructor(config: TelemetryConfig) {
    const { service, environment, version } = config
    this.service = service
    this.environment = environment
    this.version = version
    this.#origin = { service, environment, version }
    this.#sampler = new Sampler(config.sampling)
    this.#redactor = new Redactor(new KeyRules(config.redaction))
    this.#reporter = new Reporter(config.logger)
    this.#warn = (error) => this.#reporter.warning('', error)
    this.#registered = registeredEvents(config)
    const checks = isValidationOn(config.validation.mode)
    this.#actors =
      checks && Object.keys(config.actors).length > 0 ? new TypeRule('actor', config.actors) : undefined
    this.#scopes =
      checks && Object.keys(config.scopes).length > 0 ? new TypeRule('scope', config.scopes) : undefined
    const meta = version === undefined ? { service, environment } : { service, environment, version }
    this.#delivery = new Delivery(config.transports, Object.freeze(meta), () => this.stats(), this.#reporter)
  }

  /** What `KitTelemetry.create()…build()` gives. @internal */
  static of<Actors extends string, Scopes extends string, Events extends TelemetryEventMap>(
    config: TelemetryConfig,
  ): KitTelemetryManager<Actors, Scopes, Events> {
    return new KitTelemetryManager(config)
  }

  /**
   * Emits an event. Inside `session.run(…)` it carries that session's context, otherwise a session id of its own.
   *
   * Thrown are mistakes in the program only. What goes wrong later (input that cannot be read, a transport that fails)
   * is counted in `stats()` and told to the logger. After `shutdown()` events are dropped and counted.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME`; `TELEMETRY_UNKNOWN_EVENT` when a registry is attached and
   * has no such key; where validation is on also `TELEMETRY_INVALID_ACTOR`, `TELEMETRY_INVALID_SCOPE` and
   * `TELEMETRY_SCHEMA_VALIDATION_FAILED`
   */
  emit<Name extends keyof Events & string>(
    name: Name,
    input?: TelemetryEmitInput<TelemetryEventAttributes<Events[Name]>, Actors, Scopes>,
  ): void
  emit(name: `kit.mcp.${string}`, input?: TelemetryEmitInput): void
  emit(name: string, input?: TelemetryEmitInput): void {
    this.#emit(name, input, this.#ambient)
  }

  /** A new session. Inside a run of another one it inherits everything but the id. */
  session(): KitTelemetrySession<Actors, Scopes, Events> {
    const record = new SessionRecord(this, createSessionId(), isoTime(Date.now()), inheritance(this))
    return KitTelemetrySession.of(record, (name, input, context) => this.#emit(name, input, context))
  }

  /**
   * Resolves when everything emitted so far is delivered or has failed for good, and every transport's own `flush` has
   * settled, at the latest after its deadline. Never rejects. A transport that calls it from within its own `flush` does
   * not wait for itself.
   */
  flush(options: TelemetryDeadlineOptions = {}): Promise<void> {
    const timeoutMs = readTimeout(options)
    if (!this.#isShutDown) return this.#delivery.flush(timeoutMs)
    if (this.#delivery.isCallingTransport) return Promise.resolve()
    return settledWithin(timeoutMs, (done) => this.#closing.whenSettled(done))
  }

  /**
   * Flushes and closes every transport within one deadline. Further calls return the same promise, with the first
   * call's deadline. What is outstanding at the deadline stays `pending` in `stats()`. Never rejects. A transport that
   * calls it from within its own `flush` or `shutdown` gets a promise that has resolved, since it cannot wait for itself.
   */
  shutdown(options: TelemetryDeadlineOptions = {}): Promise<void> {
    const isCallingTransport = this.#delivery.isCallingTransport
    if (!this.#isShutDown) {
      this.#isShutDown = true
      const closing = this.#closing.add()
      this.#shutdown = this.#delivery.close(readTimeout(options), () => this.#closing.settle(closing))
    }
    return isCallingTransport || this.#shutdown === undefined ? Promise.resolve() : this.#shutdown
  }

  /** What `emit` would send of these attributes: JSON values, redacted. A frozen copy. */
  redact(attributes: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    return this.#redactor.map('attributes', attributes)
  }

  /** What became of the events so far. */
  stats(): TelemetryStats {
    return {
      emitted: this.#emitted,
      sampledOut: this.#sampledOut,
      droppedAfterShutdown: this.#droppedAfterShutdown,
      transports: this.#delivery.stats(),
    }
  }

  readonly #ambient = (): SessionContext | undefined => {
    const node = activeRun(this)
    return node && contextOf(node.session, node)
  }

  #emit(
    name: string,
    input: TelemetryEmitInput | undefined,
    contextOfEvent: () => SessionContext | undefined,
  ): void {
    const event = this.#resolved.get(name) ?? this.#resolveEvent(name)
    if (this.#isShutDown) {
      this.#dropAfterShutdown(name)
      return
    }
    let error: KitTelemetryError | undefined
    try {
      error = this.#process(name, event, input ?? NO_INPUT, contextOfEvent)
    } catch (cause) {
      this.#reporter.error(emitFailed(name, cause))
      return
    }
    if (error !== undefined) throw error
  }

  /** @returns why the event was refused, if it was */
  #process(
    name: string,
    event: ResolvedEvent,
    input: TelemetryEmitInput,
    contextOfEvent: () => SessionContext | undefined,
  ): KitTelemetryError | undefined {
    if (typeof input !== 'object')
      throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'the input must be an object')
    const level: TelemetryLevel = input.level ?? 'info'
    const levelRate = this.#sampler.levelRate(level)
    if (levelRate === undefined) {
      throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', `there is no level ${quotedName(level)}`)
    }

    let attributes: object | undefined
    let attributesRead = false
    if (!event.builtIn) {
      if (this.#actors !== undefined || this.#scopes !== undefined) {
        const error = this.#typeError(name, input, contextOfEvent())
        if (error !== undefined) return error
      }
      if (event.schema !== undefined) {
        const given = resolveAttributes(input)
        const error = attributesError(name, event.schema.schema, given, event.schema.strict)
        if (error !== undefined) return error
        attributes = checkAttributes(given)
        attributesRead = true
      }
    }
    this.#emitted++

    const rate = event.fixedRate ?? levelRate
    let sessionId: string | undefined
    if (this.#sampler.bySession) {
      sessionId = readSessionId(input)
      const context = sessionId === undefined ? contextOfEvent() : undefined
      sessionId ??= context?.sessionId ?? createSessionId()
      if ((context?.draw ?? sessionDraw(sessionId)) >= rate) {
        this.#sampledOut++
        return undefined
      }
    } else if (rate < 1 && Math.random() >= rate) {
      this.#sampledOut++
      return undefined
    }

    const context = contextOfEvent()
    if (!attributesRead) attributes = checkAttributes(resolveAttributes(input))
    const envelope = buildEnvelope(
      this.#origin,
      this.#redactor,
      name,
      level,
      input,
      context,
      sessionId,
      attributes,
      this.#warn,
    )
    this.#delivery.send(envelope, context?.session.pending)
    return undefined
  }

  #typeError(
    name: string,
    input: TelemetryEmitInput,
    context: SessionContext | undefined,
  ): KitTelemetryError | undefined {
    return (
      this.#actors?.check(name, input.actor ?? context?.actor) ??
      this.#scopes?.check(name, input.scope ?? context?.scope)
    )
  }

  /** Judges a name once. @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME`, `TELEMETRY_UNKNOWN_EVENT` */
  #resolveEvent(name: string): ResolvedEvent {
    checkEventName(name)
    const builtIn = name.startsWith(BUILT_IN_PREFIX)
    if (!builtIn && this.#registered !== undefined && !this.#registered.has(name)) {
      throw new KitTelemetryError(
        'TELEMETRY_UNKNOWN_EVENT',
        `no attached registry has the event ${quotedName(name)}.${didYouMean(name, this.#registered.keys())}`,
      )
    }
    const event = { builtIn, schema: this.#registered?.get(name), fixedRate: this.#sampler.fixedRate(name) }
    if (this.#resolved.size >= MAX_NAMES + (this.#registered?.size ?? 0)) this.#resolved.clear()
    this.#resolved.set(name, event)
    return event
  }

  #dropAfterShutdown(name: string): void {
    this.#droppedAfterShutdown++
    this.#reporter.repeatedError(
      this,
      new KitTelemetryError(
        'TELEMETRY_RUNTIME_NOT_INITIALIZED',
        `event ${quotedName(name)} was dropped: the manager has been shut down; ${this.#droppedAfterShutdown} so far`,
      ),
    )
  }
}

/** Full key to schema of every attached registry; `undefined` when there is none, and names are free. */
function registeredEvents(config: TelemetryConfig): ReadonlyMap<string, ResolvedEvent['schema']> | undefined {
  if (config.events.length === 0) return undefined
  const registered = new Map<string, ResolvedEvent['schema']>()
  for (const { descriptor, validation } of config.events) {
    const validates = isValidationOn(validation.mode)
    for (const name of descriptor.names) {
      const { strict } = validation
      registered.set(
        descriptor.get.key(name),
        validates ? { schema: descriptor.get.schema(name), strict } : undefined,
      )
    }
  }
  return registered
}

function emitFailed(name: string, cause: unknown): KitTelemetryError {
  const why = KitTelemetryError.is(cause) ? `: ${cause.message}` : ': reading its input failed'
  return new KitTelemetryError('TELEMETRY_EMIT_FAILED', `event ${quotedName(name)} was dropped${why}`, {
    cause,
  })
}

/** A deadline is no place to fail: what cannot be one becomes the default. */
function readTimeout(options: TelemetryDeadlineOptions): number {
  const timeoutMs: unknown = options?.timeoutMs
  return typeof timeoutMs === 'number' && !Number.isNaN(timeoutMs) ? timeoutMs : DEFAULT_TIMEOUT_MS
}
