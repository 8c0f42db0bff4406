import { performance } from 'node:perf_hooks'
import { cutText } from '../../base/cut-text.ts'
import { memberOf } from '../../base/options/describe-value.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import type { KitTelemetryManager } from '../../telemetry/manager.ts'
import type { RequestAttributes } from '../../telemetry/session/request-attributes.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import { MODERN_REVISION } from '../methods.ts'
import type { EventDetails, Failure, ObservedClient, ObservedTask } from '../wire/exchange.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import type { FailureLog } from './failure-log.ts'
import { clientText, messageAttributes, type ObservedMessage, present } from './observed-message.ts'
import { kindOf } from './outcomes.ts'
import { TokenRedactor } from './token-redactor.ts'
import type { Tracing } from './tracing.ts'

export type AnyManager = KitTelemetryManager<any, any, any>
type Attributes = Record<string, unknown>

/** The maximum length of the id of a user or an actor, in UTF-16 units. */
const MAX_ID = 1024

/** The maximum length of arguments or results on a span, as JSON. */
const MAX_PAYLOAD = 16_384

interface EventRule {
  readonly level: 'debug' | 'info' | 'warn' | 'error'
  /** `true` for an event of a call that has the time since its beginning. */
  readonly isTimed?: true
  /** `true` for an event of a call that has its arguments and its result, if they are recorded. */
  readonly hasPayloads?: true
  readonly errorType?: (failure: Failure | undefined) => string | undefined
}

/** The type of a failure that has any cause. */
const causeOf: EventRule['errorType'] = (failure) => failure && (kindOf(failure.thrown) ?? '_OTHER')

/** The events of requests, which are emitted as `kit.mcp.<name>`. */
export const EVENTS = {
  'auth.accepted': { level: 'debug' },
  'auth.anonymous': { level: 'debug' },
  'auth.refused': { level: 'warn' },
  'auth.unavailable': { level: 'error' },
  'request.completed': { level: 'info' },
  'request.failed': { level: 'error', isTimed: true },
  'tool.completed': { level: 'info', isTimed: true, hasPayloads: true },
  'tool.failed': { level: 'error', isTimed: true, hasPayloads: true, errorType: () => 'tool_error' },
  'policy.denied': { level: 'warn', errorType: causeOf },
  'limit.reached': { level: 'warn' },
  'limit.unavailable': { level: 'warn', errorType: causeOf },
  'confirm.asked': { level: 'info' },
  'confirm.accepted': { level: 'info' },
  'confirm.declined': { level: 'info' },
  'confirm.refused': { level: 'warn', errorType: causeOf },
  'event.emitted': { level: 'debug' },
  'event.subscribed': { level: 'info' },
  'event.renewed': { level: 'debug' },
  'event.unsubscribed': { level: 'info' },
  'event.refused': { level: 'warn' },
  'event.delivered': { level: 'debug' },
  'event.failed': { level: 'warn' },
  'event.abandoned': { level: 'error' },
  'event.dropped': { level: 'error' },
  'event.terminated': { level: 'warn' },
  'task.created': { level: 'info' },
  'task.completed': { level: 'info' },
  'task.failed': { level: 'error' },
  'task.cancelled': { level: 'info' },
} satisfies Record<string, EventRule>

export type EventName = keyof typeof EVENTS

/** The telemetry that the requests of an adapter share. */
export interface SharedInstrumentation {
  readonly manager: AnyManager | undefined
  /** `true` if the arguments and results of tools are recorded. The manager redacts them. */
  readonly recordsPayloads: boolean
  /** `true` if the addresses of clients are recorded on spans. */
  readonly recordsClientAddress: boolean
  /** Absent if neither spans nor metrics are recorded. */
  readonly tracing: Tracing | undefined
  /** The names of clients that metrics may have. */
  readonly knownClients: ReadonlySet<unknown>
  /** Receives failures. Absent with a manager, and if the application wants no lines. */
  readonly log: FailureLog | undefined
  /** Returns `true` if a refusal for too many requests is an event of its own. */
  readonly isFirstRefusal: (address: string) => boolean
}

/** The events of one request. They belong to one session, whose actor is the verified user, and do not contain its token. */
export class RequestEvents {
  readonly session: KitTelemetrySession<any, any, any> | undefined
  /** The attributes that the application adds to the last event. */
  readonly added: RequestAttributes | undefined
  protocolVersion: string | undefined
  client: ObservedClient | undefined
  readonly request: McpRequest
  readonly shared: SharedInstrumentation
  /** The result of `performance.now()` at the beginning, and the milliseconds since 1970. */
  readonly startedAt: number = performance.now()
  readonly startedAtMs: number = Date.now()
  #actor: Record<string, string> | undefined
  #redactor: TokenRedactor | undefined
  #hasEnded = false

  constructor(shared: SharedInstrumentation, request: McpRequest) {
    this.shared = shared
    this.request = request
    this.session = tryOrUndefined(() => shared.manager?.session())
    // A session of another version of this package does not have the method.
    this.added = tryOrUndefined(() => this.session?.beginRequest())
  }

  /** Made of the verified token, or of the `Authorization` header if no token was verified. */
  get redactor(): TokenRedactor {
    this.#redactor ??= new TokenRedactor(tryOrUndefined(() => this.request.authorization))
    return this.#redactor
  }

  /** The attributes that all messages of the request have. */
  get sharedAttributes(): Record<string, string> {
    const { client, protocolVersion: version } = this
    const hasSession = version !== undefined && version < MODERN_REVISION
    return {
      ...present({
        'mcp.protocol.version': version,
        'mcp.session.id': hasSession ? this.text(this.request.header('mcp-session-id')) : undefined,
        'mcp.client.name': client?.name,
        'mcp.client.version': client?.version,
      }),
      ...this.#actor,
    }
  }

  /** Returns a string that the client has sent, redacted and shortened. Returns undefined for other values. */
  text(value: unknown): string | undefined {
    return clientText(value, this.redact)
  }

  readonly redact = (text: string, max: number): string => this.redactor.cut(text, max)

  identify({ act, clientId, token, user }: AuthInfo): void {
    this.#redactor = new TokenRedactor(token)
    const redact = (value: string | undefined) => value && this.redact(value, MAX_ID)
    // Only the current actor is recorded.
    this.#actor =
      act &&
      present({
        'kit.mcp.auth.act.sub': redact(act.sub),
        'kit.mcp.auth.act.iss': redact(act.iss),
        'kit.mcp.auth.act.client_id': redact(act.client_id),
      })
    const id = [memberOf(user as object, 'id'), memberOf(user as object, 'sub'), clientId].find(isId)
    // A session of another implementation may return a promise, which may reject.
    if (id !== undefined) tryOrUndefined(() => this.session?.actor('user', this.redact(String(id), MAX_ID)))
  }

  /** Returns the arguments and the result of a tool as attributes, without the token, if they are recorded. The manager redacts them. */
  payloads(args: unknown, result: unknown): Readonly<Record<string, unknown>> {
    if (!this.shared.recordsPayloads) return {}
    const attributes = tryOrUndefined(() => {
      const { structuredContent, content } = (result ?? {}) as Record<
        'structuredContent' | 'content',
        unknown
      >
      return present({
        'gen_ai.tool.call.arguments': this.redactor.json(args),
        'gen_ai.tool.call.result': this.redactor.json(structuredContent ?? content),
      })
    })
    return attributes ?? {}
  }

  /** Returns the arguments and the result of a tool as attributes of a span, if they are recorded. */
  payloadTexts(args: unknown, result: unknown): Record<string, string> {
    const given = this.payloads(args, result)
    if (Object.keys(given).length === 0) return {}
    const redacted = tryOrUndefined(() => this.shared.manager?.redact(given)) ?? {}
    return Object.fromEntries(
      Object.entries(redacted).map(([key, value]) => [key, cutText(JSON.stringify(value), MAX_PAYLOAD)]),
    )
  }

  /** Emits an event of a call. */
  emitOfCall(event: EventName, call: ObservedMessage, durationMs: number, details: EventDetails): void {
    const { isTimed, hasPayloads, errorType }: EventRule = EVENTS[event]
    const { failure, purpose, reached, confirmation } = details
    const attributes = {
      ...messageAttributes(call),
      ...this.sharedAttributes,
      ...(hasPayloads && this.payloads(call.args, details.result)),
      ...present<unknown>({
        'kit.mcp.policy.purpose': purpose,
        'kit.mcp.policy.reason': this.text(details.reason),
        limit: reached?.limit,
        'limit.max': reached?.max,
        'limit.actual': reached?.actual,
        'kit.mcp.confirm.hash': confirmation?.hash,
        'kit.mcp.confirm.reason': confirmation?.reason,
        'error.type': errorType?.(failure),
        'kit.error.reference': details.reference,
        duration_ms: isTimed && durationMs,
      }),
    }
    this.emit(event, attributes, failure)
  }

  /** Emits an event of a task. */
  emitOfTask(event: EventName, { tool, reference, errorType, durationMs }: ObservedTask): void {
    this.emit(event, {
      'gen_ai.tool.name': tool,
      'kit.mcp.task.reference': reference,
      ...this.sharedAttributes,
      ...present<unknown>({ 'error.type': errorType, duration_ms: durationMs }),
    })
  }

  /** Emits an event. Never throws. @param failure the thrown value, if any */
  emit(
    event: EventName,
    attributes: Attributes,
    failure?: Failure,
    level: EventRule['level'] = EVENTS[event].level,
  ): void {
    const { manager } = this.shared
    tryOrUndefined(() => {
      // The description of an object without a message is its JSON, redacted by the manager.
      const contentOf = (thrown: object) =>
        tryOrUndefined(() => JSON.stringify(manager?.redact({ thrown }).thrown))
      const error = failure && this.redactor.thrown(failure.thrown, contentOf)
      const input = { level, attributes, ...(error !== undefined && { error }) }
      if (!this.#hasEnded) return this.session?.emit(`kit.mcp.${event}`, input)
      // A tool may still run after its client has disconnected.
      const { sessionId, actor } = this.session?.getState() ?? {}
      return manager?.emit(`kit.mcp.${event}`, { ...input, sessionId, actor })
    })
  }

  end(): void {
    this.#hasEnded = true
    // The promise is not awaited. It does not reject.
    void tryOrUndefined(() => this.session?.end())
  }
}

function isId(value: unknown): value is string | number | bigint {
  return (typeof value === 'string' && value !== '') || typeof value === 'number' || typeof value === 'bigint'
}
