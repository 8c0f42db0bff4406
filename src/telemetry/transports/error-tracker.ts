import type { TelemetryTransport } from '../delivery/transport.ts'
import type { TelemetryEnvelope, TelemetryErrorInfo } from '../envelope/envelope.ts'
import { KitTelemetryError } from '../errors.ts'
import type { TelemetryLevel } from '../levels.ts'
import { telemetryOptions } from '../options.ts'

const { checkMs, copyOptions, invalidKind } = telemetryOptions

/** Severity as Sentry writes it. */
export type ErrorTrackerLevel = 'debug' | 'info' | 'warning' | 'error' | 'fatal'

/** What a captured error is told of its event. */
export interface ErrorTrackerContext {
  readonly level: ErrorTrackerLevel
  readonly user?: Readonly<Record<string, unknown>>
  readonly tags: Readonly<Record<string, string>>
  readonly contexts: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly fingerprint: readonly string[]
}

/** The part of a Sentry scope that is used. What a scope does not have is left out. */
export interface ErrorTrackerScope {
  setLevel?(level: any): unknown
  setUser?(user: any): unknown
  setTags?(tags: any): unknown
  setTag?(key: string, value: any): unknown
  setContext?(name: string, context: any): unknown
  setFingerprint?(fingerprint: string[]): unknown
}

/** The part of a Sentry-compatible SDK that is used; `import * as Sentry from '@sentry/node'` fits. */
export interface ErrorTrackerSdk {
  captureException(error: unknown, hint?: any): unknown
  /** Where it is missing, events that are no errors are not recorded. */
  addBreadcrumb?(breadcrumb: any): unknown
  /** Where it is missing, the context is passed to `captureException` as its second argument. */
  withScope?(callback: (scope: any) => any): unknown
  /** Resolves with false when not everything could be sent within `timeoutMs`. */
  flush?(timeoutMs?: number): unknown
}

/** What `ErrorTrackerTransportAdapter.create()` takes. */
export interface ErrorTrackerTransportOptions {
  /** The error tracker, initialised by the application, such as the namespace of `@sentry/node`. */
  readonly sdk: ErrorTrackerSdk
  /** How long `flush` gives the SDK to send what it holds, in milliseconds above 0. Default 10 000. */
  readonly flushTimeout?: number | undefined
  /** What events are grouped by. Default the event's name alone. */
  readonly fingerprint?: ((envelope: TelemetryEnvelope) => readonly string[]) | undefined
}

const METHOD = 'ErrorTrackerTransportAdapter.create'

/** Longest value Sentry takes for a tag. */
const MAX_TAG_LENGTH = 200

const LEVELS: Readonly<Record<TelemetryLevel, ErrorTrackerLevel>> = {
  debug: 'debug',
  info: 'info',
  warn: 'warning',
  error: 'error',
  fatal: 'fatal',
}

/**
 * Hands events to a Sentry-compatible SDK. One of level `error` or `fatal`, or with an `error`, is captured as an
 * exception, in a scope of its own; every other is a breadcrumb.
 *
 * An event counts as delivered once the SDK has it. The SDK queues, samples and drops by itself; whether it could send
 * what it holds is told by `flush`. Release and environment stay those the SDK was initialised with.
 *
 * @example
 * Sentry.init({ dsn })
 * KitTelemetry.create().addTransport(ErrorTrackerTransportAdapter.create({ sdk: Sentry }))
 */
export class ErrorTrackerTransportAdapter implements TelemetryTransport {
  readonly type: string = 'error-tracker'
  readonly #sdk: ErrorTrackerSdk
  readonly #flushTimeout: number
  readonly #fingerprint: (envelope: TelemetryEnvelope) => readonly string[]

  private constructor(
    sdk: ErrorTrackerSdk,
    flushTimeout: number,
    fingerprint: (envelope: TelemetryEnvelope) => readonly string[],
  ) {
    this.#sdk = sdk
    this.#flushTimeout = flushTimeout
    this.#fingerprint = fingerprint
  }

  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be, naming it
   */
  static create(options: ErrorTrackerTransportOptions): ErrorTrackerTransportAdapter {
    const {
      sdk,
      flushTimeout = 10_000,
      fingerprint = byName,
    } = copyOptions<ErrorTrackerTransportOptions>(METHOD, options, {
      sdk: () => {},
      flushTimeout: (option, value) => checkMs(option, value, 'more than 0'),
      fingerprint: (option, value) => {
        if (typeof value !== 'function') throw invalidKind(option, 'must be a function', value)
      },
    })
    if (typeof sdk?.captureException !== 'function') {
      throw invalidKind(
        `${METHOD}({ sdk })`,
        'must be an error tracker, which is an object with the method captureException',
        sdk,
      )
    }
    return new ErrorTrackerTransportAdapter(sdk, flushTimeout, fingerprint)
  }

  handle(envelope: TelemetryEnvelope): Promise<void> | void {
    const { level, error } = envelope
    const answer =
      error !== undefined || level === 'error' || level === 'fatal'
        ? this.#capture(envelope)
        : this.#sdk.addBreadcrumb?.(breadcrumbOf(envelope))
    if (answer instanceof Promise) return answer.then(() => {})
  }

  /** Has the SDK send what it holds. @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED` when it says it could not */
  async flush(): Promise<void> {
    if ((await this.#sdk.flush?.(this.#flushTimeout)) !== false) return
    throw new KitTelemetryError(
      'TELEMETRY_TRANSPORT_FAILED',
      `transport "error-tracker": the sdk could not send everything within ${this.#flushTimeout} ms, or was not initialised`,
    )
  }

  /**
   * As `flush`. The SDK is the application's, and stays open.
   * @param deadline if it has aborted, the SDK is not asked to flush again, since that may keep the process alive
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    if (deadline?.aborted !== true) await this.flush()
  }

  #capture(envelope: TelemetryEnvelope): unknown {
    const sdk = this.#sdk
    const exception = exceptionOf(envelope)
    const context = contextOf(envelope, this.#fingerprint(envelope))
    if (typeof sdk.withScope !== 'function') return sdk.captureException(exception, context)
    let answer: unknown
    sdk.withScope((scope: ErrorTrackerScope) => {
      fill(scope, context)
      answer = sdk.captureException(exception)
    })
    return answer
  }
}

function byName({ name }: TelemetryEnvelope): readonly string[] {
  return [name]
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
  // Copied, because hooks of the SDK may change what they see, and an envelope is frozen.
  const { actor, scope, attributes, source } = structuredClone({
    actor: envelope.actor,
    scope: envelope.scope,
    attributes: envelope.attributes,
    source: envelope.source,
  })
  const user = { ...actor?.tags, ...(actor?.id === undefined ? {} : { id: actor.id }) }
  return {
    level: LEVELS[level],
    ...(Object.keys(user).length === 0 ? {} : { user }),
    tags: tagsOf(envelope),
    contexts: {
      telemetry: {
        ...{ name, time, level, service, environment, sessionId },
        ...(version === undefined ? {} : { version }),
        ...(source === undefined ? {} : { source }),
      },
      ...(attributes === undefined ? {} : { attributes }),
      ...(actor === undefined ? {} : { actor: { ...actor } }),
      ...(scope === undefined ? {} : { scope: { ...scope } }),
    },
    fingerprint,
  }
}

/** Without `release` and `environment`, which the SDK sets itself. */
function tagsOf({
  name,
  service,
  version,
  sessionId,
  actor,
  scope,
  error,
}: TelemetryEnvelope): Record<string, string> {
  const tags: Record<string, string | undefined> = {
    event: name,
    service,
    'service.version': version,
    'session.id': sessionId,
    'actor.type': actor?.type,
    'scope.type': scope?.type,
    'scope.id': scope?.id,
    'error.code': error?.code,
  }
  return Object.fromEntries(
    Object.entries(tags).flatMap(([key, value]) => (value === undefined ? [] : [[key, tagValue(value)]])),
  )
}

/** In one line, and cut to what Sentry takes. */
function tagValue(value: string): string {
  const line = value.replace(/\s+/g, ' ')
  if (line.length <= MAX_TAG_LENGTH) return line
  return `${line.slice(0, MAX_TAG_LENGTH - 1).replace(/[\ud800-\udbff]$/, '')}…`
}

function breadcrumbOf({ name, time, level, sessionId, actor, scope, attributes }: TelemetryEnvelope): object {
  const about: Record<string, unknown> = {
    'session.id': sessionId,
    'actor.type': actor?.type,
    'actor.id': actor?.id,
    'scope.type': scope?.type,
    'scope.id': scope?.id,
  }
  for (const key of Object.keys(about)) if (about[key] === undefined) delete about[key]
  return {
    category: name,
    message: name,
    level: LEVELS[level],
    timestamp: Date.parse(time) / 1000,
    data: { ...structuredClone(attributes), ...about },
  }
}

/** The event's error made an `Error` again, its causes included. Without one, the event itself is what went wrong. */
function exceptionOf({ name, error }: TelemetryEnvelope): Error {
  if (error !== undefined) return rebuiltError(error)
  // The stack of this very function would be of no use to anybody.
  return namedError('TelemetryEvent', name, `TelemetryEvent: ${name}`)
}

function rebuiltError({ name, message, code, stack }: TelemetryErrorInfo): Error {
  const [own = '', ...causes] = stack?.split('\nCaused by: ') ?? []
  const cause = causes.reduceRight<Error | undefined>((deeper, text) => {
    const [head = ''] = text.split(/\n[^\S\n]+at /, 1)
    const [, type = 'Error', said = head] = /^([\w$.]+): ([\s\S]*)$/.exec(head) ?? []
    return withCause(namedError(type, said, text), deeper)
  }, undefined)
  const error = namedError(name, message, own === '' ? `${name}: ${message}` : own)
  if (code !== undefined) Object.assign(error, { code })
  return withCause(error, cause)
}

function namedError(name: string, message: string, stack: string): Error {
  const error = new Error(message)
  for (const [key, value] of Object.entries({ name, stack }))
    Object.defineProperty(error, key, { value, configurable: true, writable: true })
  return error
}

function withCause(error: Error, cause: Error | undefined): Error {
  if (cause !== undefined) error.cause = cause
  return error
}
