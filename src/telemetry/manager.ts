import { atShutdown } from '../base/at-shutdown.ts'
import { AuditTrail } from './audit/audit-trail.ts'
import type { TelemetryConfig } from './config.ts'
import { Delivery, type Route } from './delivery/delivery.ts'
import { PendingWork, readTimeout, withDeadline } from './delivery/pending-work.ts'
import { Reporter } from './delivery/reporter.ts'
import { type InternalMeta, namedOrigin, redactIds, type TelemetryStats } from './delivery/transport.ts'
import { droppedAfterShutdown, emitFailed, leftOut, problemOf, unknownLevel } from './emit-errors.ts'
import {
  buildEnvelope,
  checkAttributes,
  type EnvelopeOrigin,
  resolveAttributes,
} from './envelope/build-envelope.ts'
import { CommonAttributes } from './envelope/common-attributes.ts'
import type { TelemetryAttributes, TelemetryEmitInput, TelemetryEnvelope } from './envelope/envelope.ts'
import { KeyRules } from './envelope/redaction.ts'
import { idRedaction, Redactor } from './envelope/redactor.ts'
import { createSessionId } from './envelope/session-id.ts'
import { isoTime } from './envelope/time.ts'
import { KitTelemetryError } from './errors.ts'
import { type EventRule, EventRules } from './event-rules.ts'
import type { TelemetryEventMap } from './events/schema.ts'
import { attributesError } from './events/validation.ts'
import type { TelemetryLevel } from './levels.ts'
import { activeTrace } from './otel-context.ts'
import {
  activeRun,
  ambientRequest,
  contextOf,
  inheritance,
  type SessionContext,
  SessionRecord,
} from './session/context.ts'
import { EventSampling, type KeptEvent } from './session/event-sampling.ts'
import { type ReportIgnored, reportIgnored } from './session/request-attributes.ts'
import {
  copySamplingPolicy,
  mergeSamplingPolicies,
  resolveSamplingPolicy,
  type TelemetrySamplingPolicy,
} from './session/sampling.ts'
import {
  addToRequest,
  KitTelemetrySession,
  type SessionEmit,
  type TelemetryEmitArguments,
  type TelemetryEventName,
} from './session/session.ts'
import { sampledBy, type TailOutcomes } from './session/tail-sampling.ts'

/** The maximum number of members of events that are reported as left out. */
const MAX_LEFT_OUT = 1_000

/** The input of an event without input. */
const NO_INPUT: TelemetryEmitInput = Object.freeze({})

/** The options of `flush()` and `shutdown()`. */
export interface TelemetryDeadlineOptions {
  /**
   * The maximum duration of the call, in milliseconds. The process stays alive for this time if the call is awaited.
   * Defaults to 30 000 ms.
   */
  readonly timeoutMs?: number | undefined
}

/**
 * Validates, samples, and redacts events, and passes them to every transport. `KitTelemetry.build()` creates it. Without
 * type arguments, this is the type of a manager with any actors, scopes, and events.
 *
 * @example
 * ```ts
 * import { KitTelemetry, type KitTelemetryManager, LoggerTransportAdapter } from 'mcp-gatekit/telemetry'
 *
 * const telemetry: KitTelemetryManager = KitTelemetry.create()
 *   .addTransport(LoggerTransportAdapter.create({ logger: console }))
 *   .build()
 * telemetry.emit('job.started')
 * await telemetry.shutdown({ timeoutMs: 5_000 })
 * ```
 * @see docs/guides/telemetry.md
 */
export class KitTelemetryManager<
  Actors extends string = any,
  Scopes extends string = any,
  Events extends TelemetryEventMap = any,
> {
  /** The name passed to `withService`. */
  readonly service: string
  /** The name passed to `withEnvironment`. */
  readonly environment: string
  /** The version passed to `withVersion`. */
  readonly version: string | undefined

  readonly #origin: EnvelopeOrigin
  readonly #sampling: EventSampling
  readonly #common: CommonAttributes | undefined
  readonly #tracesEvents: boolean
  readonly #redactor: Redactor
  readonly #reporter: Reporter
  readonly #delivery: Delivery
  readonly #audit: AuditTrail | undefined
  readonly #rules: EventRules
  /** The members of events that were reported as left out. */
  readonly #leftOut = new Set<string>()
  #emitted = 0
  #droppedAfterShutdown = 0
  #isShutDown = false
  #shutdown: Promise<void> | undefined
  /** The shutdown, for those who wait for it. */
  readonly #closing = new PendingWork()
  readonly #ends = new Set<() => void>()

  private constructor(config: TelemetryConfig) {
    const { service, environment, version, transports } = config
    this.service = service
    this.environment = environment
    this.version = version
    this.#origin = { service, environment, version }
    const rules = new KeyRules(config.redaction)
    this.#redactor = new Redactor(rules)
    this.#reporter = new Reporter(config.logger)
    const deliver: TailOutcomes['deliver'] = ({ context, envelope, bytes, emittedAtMs }, pending) =>
      context.runInAsyncScope(() => this.#delivery.send(envelope, bytes, pending, emittedAtMs))
    this.#sampling = new EventSampling(config.sampling, this, deliver, this.#reporter)
    this.#tracesEvents = config.traceContext === true
    this.#common =
      config.attributes &&
      new CommonAttributes(config.attributes, (problem) => this.#reporter.warning('', problem))
    const meta = version === undefined ? { service, environment } : { service, environment, version }
    Object.freeze(
      Object.defineProperties(meta, {
        [redactIds]: { value: idRedaction(rules) },
        [namedOrigin]: { value: (config as InternalMeta)[namedOrigin] },
      }),
    )
    this.#audit = config.audit && new AuditTrail(config.audit, this.#origin, this.#reporter)
    this.#rules = new EventRules(config, (name) => ({
      fixedRate: this.#sampling.fixedRate(name),
      keepsSession: this.#sampling.tails?.hasName(name) ?? false,
      isAudited: this.#audit?.hasName(name) ?? false,
      report: (problem) => this.#reportLeftOut(name, problem),
    }))
    this.#delivery = new Delivery(transports, meta, this.#reporter, this.#audit)
  }

  /** Creates the manager for `KitTelemetry.build()`. @internal */
  static of<Actors extends string, Scopes extends string, Events extends TelemetryEventMap>(
    config: TelemetryConfig,
  ): KitTelemetryManager<Actors, Scopes, Events> {
    return new KitTelemetryManager(config)
  }

  /**
   * Emits an event. Inside `session.run(…)`, it has the context of that session. Otherwise it has its own session id.
   *
   * Only mistakes in the program are thrown. Later failures, such as input that cannot be read or a transport that fails,
   * are counted in `stats()` and reported to the logger. After `shutdown()`, events are dropped and counted.
   * @param name the full key of the event.
   * @param input the attributes and other members of the event. It may be omitted unless the schema of the event has required
   * attributes.
   * @throws {KitTelemetryError} `TELEMETRY_INVALID_EVENT_NAME` if the name is invalid; `TELEMETRY_UNKNOWN_EVENT` if a
   * registry is attached and no registry has the name; if validation is on, `TELEMETRY_INVALID_ACTOR`,
   * `TELEMETRY_INVALID_SCOPE`, or `TELEMETRY_SCHEMA_VALIDATION_FAILED`.
   */
  emit<Name extends TelemetryEventName<Events>>(
    name: Name,
    ...input: TelemetryEmitArguments<Name, Events, Actors, Scopes>
  ): void
  emit(name: string, input?: TelemetryEmitInput): void {
    this.#emit(name, input, this.#ambient)
  }

  /**
   * Creates a session. Inside a run of another session, it inherits everything except the id.
   * @returns a session that is active until its `end()` is called.
   */
  session(): KitTelemetrySession<Actors, Scopes, Events> {
    const startedAt = isoTime(Date.now())
    const record = new SessionRecord(
      this,
      createSessionId(),
      startedAt,
      inheritance(this),
      this.#sampling.tails,
    )
    const emit: SessionEmit = (name, input, context) => this.#emit(name, input, context)
    return KitTelemetrySession.of(record, emit, this[reportIgnored])
  }

  /**
   * Adds attributes to the event that ends the request around the call, as `set` of its session does.
   * @param attributes the attributes. They are copied at once, and redacted when the event is emitted.
   * @throws {KitTelemetryError} `TELEMETRY_SESSION_INVALID` if `attributes` is not an object.
   */
  set(attributes: TelemetryAttributes): void {
    addToRequest(ambientRequest(this), attributes, this[reportIgnored])
  }

  /**
   * Replaces the sampling policy of all later events. Members that are not set have their defaults. Held events stay held until
   * their session ends if the new policy has `keep`. Otherwise they are decided at once.
   * @param policy as in `withSampling`.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID`, as `withSampling`. Nothing changes then.
   */
  setSampling(policy: TelemetrySamplingPolicy): void {
    this.#sampling.use(resolveSamplingPolicy(mergeSamplingPolicies({}, copySamplingPolicy(policy))))
    this.#rules.forget()
  }

  /**
   * Flushes every transport. Never rejects. Events that wait for the end of their session stay held. A transport that calls
   * it in its own `flush` does not wait for itself.
   * @param options the timeout.
   * @returns a promise that resolves when all previous events are delivered or have failed, and when the `flush` of every
   * transport has settled, but after the timeout at the latest.
   */
  flush(options: TelemetryDeadlineOptions = {}): Promise<void> {
    const timeoutMs = readTimeout(options)
    if (!this.#isShutDown) return this.#delivery.flush(timeoutMs)
    if (this.#delivery.isCallingTransport) return Promise.resolve()
    return withDeadline(timeoutMs, (deadline) => this.#closing.settled(deadline))
  }

  /**
   * Flushes and closes every transport within one timeout. Never rejects. Events that are not settled by then stay
   * `pending` in `stats()`. Held events are decided as if their sessions had ended.
   * @param options the timeout. Further calls return the promise of the first call, with its timeout.
   * @returns a promise that resolves when every transport is closed, or after the timeout. A transport that calls this
   * method in its own `flush` or `shutdown` gets a resolved promise, because it cannot wait for itself.
   */
  shutdown(options: TelemetryDeadlineOptions = {}): Promise<void> {
    const isCallingTransport = this.#delivery.isCallingTransport
    if (!this.#isShutDown) {
      for (const end of this.#ends) end()
      this.#isShutDown = true
      this.#sampling.tails?.close()
      const closing = this.#closing.add()
      this.#shutdown = this.#delivery.close(readTimeout(options), () => this.#closing.settle(closing))
    }
    return isCallingTransport || this.#shutdown === undefined ? Promise.resolve() : this.#shutdown
  }

  /** Calls a function when the manager is shut down. @internal */
  [atShutdown](end: () => void): void {
    this.#ends.add(end)
  }

  /**
   * Redacts attributes as `emit` does.
   * @param attributes the attributes of an event.
   * @returns a frozen copy that consists of JSON values.
   */
  redact(attributes: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
    return this.#redactor.map('attributes', attributes)
  }

  /**
   * Returns the delivery statistics.
   * @returns the number of events that were emitted, sampled out, delivered, dropped, and so on.
   */
  stats(): TelemetryStats {
    return {
      emitted: this.#emitted,
      sampledOut: this.#sampling.sampledOut,
      held: this.#sampling.tails?.held ?? 0,
      droppedAfterShutdown: this.#droppedAfterShutdown,
      transports: this.#delivery.stats(),
      ...(this.#audit !== undefined && { audit: this.#audit.stats() }),
    }
  }

  /** @internal */
  readonly [reportIgnored]: ReportIgnored = (kind, message) => this.#reporter.repeatedWarning(kind, message)

  readonly #ambient = (): SessionContext | undefined => {
    const node = activeRun(this)
    return node && contextOf(node.session, node)
  }

  #emit(
    name: string,
    input: TelemetryEmitInput | undefined,
    contextOfEvent: () => SessionContext | undefined,
  ): void {
    const event = this.#rules.of(name)
    if (this.#isShutDown) {
      this.#dropAfterShutdown(name)
      return
    }
    let error: KitTelemetryError | undefined
    try {
      error = this.#process(name, event, input ?? NO_INPUT, contextOfEvent)
    } catch (cause) {
      if (event.isAudited) this.#audit?.lose()
      this.#reporter.error(emitFailed(name, cause), undefined, problemOf(cause))
      return
    }
    if (error !== undefined) throw error
  }

  /** @returns the error of an event that must not be emitted. */
  #process(
    name: string,
    event: EventRule,
    input: TelemetryEmitInput,
    contextOfEvent: () => SessionContext | undefined,
  ): KitTelemetryError | undefined {
    if (typeof input !== 'object')
      throw new KitTelemetryError('TELEMETRY_EMIT_FAILED', 'the input must be an object')
    let level: TelemetryLevel = input.level ?? 'info'
    let levelRate = this.#sampling.rates.get(level)
    if (levelRate === undefined) {
      event.report(unknownLevel(level))
      level = 'info'
      levelRate = this.#sampling.rates.get(level) as number
    }

    let attributes: object | undefined
    let common: TelemetryAttributes | undefined
    let attributesRead = false
    if (!event.builtIn) {
      if (this.#rules.checksTypes) {
        const error = this.#rules.typeError(name, input, contextOfEvent())
        if (error !== undefined) return error
      }
      if (event.schema !== undefined) {
        const resolved = resolveAttributes(input)
        common = this.#common?.read()
        const error = attributesError(name, event.schema.schema, resolved, event.schema.strict, common)
        if (error !== undefined) return error
        attributes = checkAttributes(resolved)
        attributesRead = true
      }
    }
    this.#emitted++

    const rate = event.fixedRate ?? levelRate
    let route: Route = event.isAudited ? 'all' : 'transports'
    let kept: KeptEvent | undefined
    let context: SessionContext | undefined
    let envelope: TelemetryEnvelope
    try {
      kept = this.#sampling.decide(event, level, rate, input, contextOfEvent)
      if (kept === undefined) {
        if (!event.isAudited) return undefined
        route = 'audit'
      }
      context = contextOfEvent()
      if (!attributesRead) {
        attributes = checkAttributes(resolveAttributes(input))
        common = this.#common?.read()
      }
      envelope = buildEnvelope(
        this.#origin,
        this.#redactor,
        name,
        level,
        input,
        context,
        kept?.sessionId,
        attributes,
        common && this.#common?.redact(common, this.#redactor),
        this.#tracesEvents ? activeTrace() : undefined,
        event.report,
      )
    } catch (cause) {
      if (route !== 'audit') this.#delivery.fail(emitFailed(name, cause))
      throw cause
    }
    const { bytes } = this.#redactor
    const pending = context?.session.pending
    const { decision, tail } = kept ?? {}
    if (decision === undefined) {
      this.#delivery.send(envelope, bytes, pending, undefined, route)
      return undefined
    }
    if (event.isAudited) this.#delivery.send(envelope, bytes, pending, undefined, 'audit')
    if (decision !== 'hold') this.#delivery.send(sampledBy(envelope, decision), bytes, pending)
    else if (tail !== undefined) this.#sampling.tails?.hold(tail, envelope, bytes)
    return undefined
  }

  /** Reports a member that was left out, once for each event name and member. */
  #reportLeftOut(name: string, problem: KitTelemetryError): void {
    const kind = `${name} ${problem.details?.member}`
    if (this.#leftOut.has(kind) || this.#leftOut.size >= MAX_LEFT_OUT) return
    this.#leftOut.add(kind)
    this.#reporter.warning('', leftOut(name, problem), problemOf(problem))
  }

  #dropAfterShutdown(name: string): void {
    this.#droppedAfterShutdown++
    this.#reporter.repeatedError(this, droppedAfterShutdown(name, this.#droppedAfterShutdown))
  }
}
