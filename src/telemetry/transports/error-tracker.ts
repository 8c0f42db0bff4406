import { cutText } from '../../base/cut-text.ts'
import { linksOf } from '../../base/describe-error.ts'
import {
  type OptionRule,
  optional,
  type ReadBy,
  type RulesFor,
  unchecked,
} from '../../base/options/option-rules.ts'
import { orAfter } from '../delivery/pending-work.ts'
import {
  auditObstacle,
  type InternalMeta,
  type RedactIds,
  redactIds,
  type TelemetryTransport,
  type TelemetryTransportMeta,
} from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryLevel } from '../levels.ts'
import { telemetryOptions } from '../options.ts'
import { writeOtlpAttributes } from './otlp/otlp-record.ts'
import { readTransportOptions, timeoutMs } from './transport-options.ts'

const { invalidKind } = telemetryOptions

/** The severity levels of Sentry. */
export type ErrorTrackerLevel = 'debug' | 'info' | 'warning' | 'error' | 'fatal'

/** The data of an event that is attached to a captured error. */
export interface ErrorTrackerContext {
  readonly level: ErrorTrackerLevel
  readonly user?: Readonly<Record<string, unknown>>
  readonly tags: Readonly<Record<string, string>>
  readonly contexts: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly fingerprint: readonly string[]
}

/** The methods of a Sentry scope that are used. Missing methods are not called. */
export interface ErrorTrackerScope {
  setLevel?(level: any): unknown
  setUser?(user: any): unknown
  setTags?(tags: any): unknown
  setTag?(key: string, value: any): unknown
  setContext?(name: string, context: any): unknown
  setFingerprint?(fingerprint: string[]): unknown
}

/** The functions of a Sentry-compatible SDK that are used, such as `import * as Sentry from '@sentry/node'`. */
export interface ErrorTrackerSdk {
  captureException(error: unknown, hint?: any): unknown
  /** Records an event that is not an error. If it is missing, these events are not recorded. */
  addBreadcrumb?(breadcrumb: any): unknown
  /** Runs code in a new scope. If it is missing, the context is the second argument of `captureException`. */
  withScope?(callback: (scope: any) => any): unknown
  /** Records logs, as `Sentry.logger` does. If it is missing, no logs are recorded. */
  readonly logger?: { readonly [Level in TelemetryLevel]?: (message: any, attributes?: any) => unknown }
  /** Resolves to `false` if not everything could be sent within `timeoutMs`. */
  flush?(timeoutMs?: number): unknown
}

/** The options of `ErrorTrackerTransportAdapter.create()`. */
export interface ErrorTrackerTransportOptions {
  /** The SDK of the error tracker, which the application has initialized, such as the namespace of `@sentry/node`. */
  readonly sdk: ErrorTrackerSdk
  /** The timeout for the `flush` of the SDK, in milliseconds above 0. Defaults to 10 000 ms. */
  readonly flushTimeout?: number | undefined
  /** Returns the values by which errors are grouped. Defaults to the name of the event. */
  readonly fingerprint?: ((envelope: TelemetryEnvelope) => readonly string[]) | undefined
  /**
   * Passes every event to the `logger` of the SDK as well, if it has one. The attributes are those of `OtlpTransportAdapter`.
   * Defaults to `false`.
   */
  readonly logs?: boolean | undefined
}

const METHOD = 'ErrorTrackerTransportAdapter.create'

type Fingerprint = NonNullable<ErrorTrackerTransportOptions['fingerprint']>

const checkFingerprint: OptionRule<Fingerprint> = (option, value) => {
  if (typeof value === 'function') return value as Fingerprint
  throw invalidKind(option, 'must be a function', value)
}

const RULES = {
  sdk: unchecked<ErrorTrackerSdk | undefined>(),
  flushTimeout: optional(timeoutMs, 10_000),
  fingerprint: optional<Fingerprint, Fingerprint>(checkFingerprint, ({ name }) => [name]),
  logs: optional<boolean, boolean>(telemetryOptions.checkBoolean, false),
} satisfies RulesFor<ErrorTrackerTransportOptions>

/** The maximum length of a tag in Sentry. */
const MAX_TAG_LENGTH = 200

const LEVELS: Readonly<Record<TelemetryLevel, ErrorTrackerLevel>> = {
  debug: 'debug',
  info: 'info',
  warn: 'warning',
  error: 'error',
  fatal: 'fatal',
}

/**
 * Passes events to a Sentry-compatible SDK. Events of the level `error` or `fatal`, and events with an `error`, are captured
 * as exceptions, each in its own scope. Other events become breadcrumbs.
 *
 * An event counts as delivered when the SDK has received it. The SDK queues, samples, and drops events itself. `flush`
 * rejects if the SDK could not send them. Release and environment are those of the SDK.
 *
 * @example
 * ```ts
 * import { type ErrorTrackerSdk, ErrorTrackerTransportAdapter, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * declare const Sentry: ErrorTrackerSdk // import * as Sentry from '@sentry/node'
 *
 * KitTelemetry.create().addTransport(ErrorTrackerTransportAdapter.create({ sdk: Sentry }))
 * ```
 * @see docs/reference/transports.md
 */
export class ErrorTrackerTransportAdapter implements TelemetryTransport {
  readonly type: string = 'error-tracker'
  /** @internal */
  readonly [auditObstacle]: string = 'Use a transport that writes events as JSON'
  readonly #sdk: ErrorTrackerSdk
  readonly #flushTimeout: number
  readonly #fingerprint: Fingerprint
  readonly #logs: boolean
  #redactIds: RedactIds = (envelope) => envelope

  private constructor(sdk: ErrorTrackerSdk, { flushTimeout, fingerprint, logs }: ReadBy<typeof RULES>) {
    this.#sdk = sdk
    this.#flushTimeout = flushTimeout
    this.#fingerprint = fingerprint
    this.#logs = logs
  }

  /**
   * Creates the transport.
   * @param options the SDK, and how errors are grouped.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid.
   */
  static create(options: ErrorTrackerTransportOptions): ErrorTrackerTransportAdapter {
    const read = readTransportOptions(METHOD, options, RULES)
    const { sdk } = read
    if (typeof sdk?.captureException !== 'function') {
      throw invalidKind(
        `${METHOD}({ sdk })`,
        'must be an error tracker, which is an object with the method captureException',
        sdk,
      )
    }
    return new ErrorTrackerTransportAdapter(sdk, read)
  }

  /**
   * Reads how ids are redacted.
   * @param meta the metadata of the manager.
   */
  init(meta: TelemetryTransportMeta): void {
    this.#redactIds = (meta as InternalMeta)[redactIds] ?? this.#redactIds
  }

  /**
   * Captures an event, or adds a breadcrumb.
   * @param event the event.
   */
  handle(event: TelemetryEnvelope): Promise<void> | void {
    const envelope = this.#redactIds(event)
    const { level, error } = envelope
    const result =
      error !== undefined || level === 'error' || level === 'fatal'
        ? this.#capture(envelope)
        : this.#sdk.addBreadcrumb?.(breadcrumbOf(envelope))
    if (this.#logs) this.#sdk.logger?.[level]?.(envelope.name, logAttributes(envelope))
    if (result instanceof Promise) return result.then(() => {})
  }

  /**
   * Flushes the SDK, which may take `flushTimeout`.
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED` if the SDK could not send everything.
   */
  async flush(): Promise<void> {
    if ((await this.#flushSdk()) !== false) return
    throw new KitTelemetryError(
      'TELEMETRY_TRANSPORT_FAILED',
      `transport "error-tracker": the SDK could not send everything within ${this.#flushTimeout} ms, or is not initialized`,
    )
  }

  /**
   * Flushes the SDK, but does not close it, because it belongs to the application.
   * @param deadline if it has aborted, the SDK is not flushed, because that may keep the process alive.
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    if (deadline?.aborted !== true) await this.flush()
  }

  /** @returns `false` if the SDK could not send everything in time. */
  #flushSdk(): Promise<unknown> {
    return orAfter(this.#flushTimeout, false, () => this.#sdk.flush?.(this.#flushTimeout))
  }

  #capture(envelope: TelemetryEnvelope): unknown {
    const sdk = this.#sdk
    const exception = exceptionOf(envelope)
    const context = contextOf(envelope, this.#fingerprint(envelope))
    if (typeof sdk.withScope !== 'function') return sdk.captureException(exception, context)
    let result: unknown
    sdk.withScope((scope: ErrorTrackerScope) => {
      fill(scope, context)
      result = sdk.captureException(exception)
    })
    return result
  }
}

function fill(
  scope: ErrorTrackerScope,
  { level, user, tags, contexts, fingerprint }: ErrorTrackerContext,
): void {
  scope.setLevel?.(level)
  if (user !== undefined) scope.setUser?.(user)
  if (typeof scope.setTags === 'function') scope.setTags(tags)
  else for (const [key, value] of Object.entries(tags)) scope.setTag?.(key, value)
  for (const [name, context] of Object.entries(contexts)) scope.setContext?.(name, context)
  scope.setFingerprint?.([...fingerprint])
}

function contextOf(envelope: TelemetryEnvelope, fingerprint: readonly string[]): ErrorTrackerContext {
  const { name, time, level, service, environment, version, sessionId } = envelope
  // Hooks of the SDK may change these objects, and an envelope is frozen.
  const { actor, scope, attributes, error, source } = structuredClone({
    actor: envelope.actor,
    scope: envelope.scope,
    attributes: envelope.attributes,
    error: envelope.error?.attributes,
    source: envelope.source,
  })
  const user = { ...actor?.tags, ...defined({ id: actor?.id }) }
  return {
    level: LEVELS[level],
    ...(Object.keys(user).length > 0 && { user }),
    tags: tagsOf(envelope),
    contexts: defined({
      telemetry: defined({ name, time, level, service, environment, sessionId, version, source }),
      attributes,
      error,
      actor: actor && { ...actor },
      scope: scope && { ...scope },
    }),
    fingerprint,
  }
}

/** Returns the tags, without `release` and `environment`, which the SDK sets itself. */
function tagsOf(envelope: TelemetryEnvelope): Record<string, string> {
  const { name, service, version, sessionId, actor, scope, error } = envelope
  const tags = defined({
    event: name,
    service,
    'service.version': version,
    'session.id': sessionId,
    'actor.type': actor?.type,
    'scope.type': scope?.type,
    'scope.id': scope?.id,
    'error.code': error?.code,
  })
  return Object.fromEntries(Object.entries(tags).map(([key, value]) => [key, tagValue(value)]))
}

/** Returns the members that are not `undefined`. */
function defined<Value>(members: Readonly<Record<string, Value | undefined>>): Record<string, Value> {
  return Object.fromEntries(
    Object.entries(members).filter((entry): entry is [string, Value] => entry[1] !== undefined),
  )
}

/** Returns a string in one line, cut to the limit of Sentry. */
function tagValue(value: string): string {
  return cutText(value.replace(/\s+/g, ' '), MAX_TAG_LENGTH, '…')
}

/** Returns the attributes of a log. The SDK reads some objects as values with a unit, so they are passed as JSON. */
function logAttributes(envelope: TelemetryEnvelope): Record<string, unknown> {
  const entries = Object.entries(writeOtlpAttributes(envelope, {}))
  return Object.fromEntries(
    entries.map(([key, value]) => [key, typeof value === 'object' ? JSON.stringify(value) : value]),
  )
}

function breadcrumbOf({ name, time, level, sessionId, actor, scope, attributes }: TelemetryEnvelope): object {
  const about = defined({
    'session.id': sessionId,
    'actor.type': actor?.type,
    'actor.id': actor?.id,
    'scope.type': scope?.type,
    'scope.id': scope?.id,
  })
  return {
    category: name,
    message: name,
    level: LEVELS[level],
    timestamp: Date.parse(time) / 1000,
    data: { ...structuredClone(attributes), ...about },
  }
}

/**
 * Returns the error of the event as an `Error`, with its causes and the errors of an `AggregateError`. Without the original
 * error, only its text is known. Without an error, the event itself becomes the error.
 */
function exceptionOf({ name: event, error }: TelemetryEnvelope): Error {
  // The stack of this function would not be useful.
  if (error === undefined) return namedError('TelemetryEvent', event)
  const { name, message, code } = error
  const links = linksOf(error) ?? []
  const errors = links.map((link) => namedError(link.name, link.message, link.frames))
  const exception = links[0]?.isError === true ? (errors[0] as Error) : namedError(name, message)
  links.forEach(({ parent, isError, isCause }, index) => {
    const owner = errors[parent] as Error & { errors?: Error[] }
    const linked = errors[index] as Error
    if (index === 0 || !isError) return
    if (isCause) owner.cause = linked
    else owner.errors = [...(owner.errors ?? []), linked]
  })
  return code === undefined ? exception : Object.assign(exception, { code })
}

function namedError(name: string, message: string, frames = ''): Error {
  const error = new Error(message)
  // A line of the message could be read as a frame.
  const stack = `${name}: ${message.replaceAll('\n', ' ')}${frames}`
  for (const [key, value] of Object.entries({ name, stack }))
    Object.defineProperty(error, key, { value, configurable: true, writable: true })
  return error
}
