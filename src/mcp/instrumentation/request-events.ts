import { performance } from 'node:perf_hooks'
import type { ErrorTexts } from '../../describe-error.ts'
import type { Actor } from '../../oauth/actor.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { memberOf } from '../../options/describe-value.ts'
import type { KitTelemetryManager } from '../../telemetry/manager.ts'
import type { RequestAttributes } from '../../telemetry/session/request-attributes.ts'
import type { KitTelemetrySession } from '../../telemetry/session/session.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { MODERN_REVISION } from '../revisions.ts'
import type { McpRequest } from '../wire/mcp-request.ts'
import type { EventDetails, Failure, ObservedClient, ObservedTask } from '../wire/request-telemetry.ts'
import { clientText, messageAttributes, type ObservedMessage, observedMessage } from './observed-message.ts'
import { kindOf } from './observed-outcome.ts'
import { type Payloads, payloads, payloadTexts } from './observed-payloads.ts'
import { TokenRedactor } from './token-redactor.ts'

export type AnyManager = KitTelemetryManager<any, any, any>
type Attributes = Record<string, unknown>

/** The maximum length of the id of a user or an actor, in UTF-16 units. */
const MAX_ID = 1024

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

/** The settings of the events of all requests. */
export interface EventSettings {
  readonly manager: AnyManager | undefined
  /** `true` if the arguments and results of tools are recorded. The manager redacts them. */
  readonly recordsPayloads: boolean
  /** `true` if the addresses of clients are recorded on spans. */
  readonly recordsClientAddress: boolean
}

/** The events of one request. They belong to one session, whose actor is the verified user, and do not contain its token. */
export class RequestEvents {
  readonly session: KitTelemetrySession<any, any, any> | undefined
  /** The attributes that the application adds to the last event. */
  readonly added: RequestAttributes | undefined
  protocolVersion: string | undefined
  client: ObservedClient | undefined
  #actor: Record<string, string> | undefined
  readonly #manager: AnyManager | undefined
  readonly #recordsPayloads: boolean
  readonly request: McpRequest
  /** The result of `performance.now()` at the beginning, and the milliseconds since 1970. */
  readonly startedAt: number = performance.now()
  readonly startedAtMs: number = Date.now()
  readonly #recordsClientAddress: boolean
  #redactor: TokenRedactor | undefined
  #hasEnded = false

  constructor({ manager, recordsPayloads, recordsClientAddress }: EventSettings, request: McpRequest) {
    this.#manager = manager
    this.#recordsPayloads = recordsPayloads
    this.#recordsClientAddress = recordsClientAddress
    this.request = request
    this.session = tryOrUndefined(() => manager?.session())
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
    const version = this.protocolVersion
    const { name, version: clientVersion } = this.client ?? {}
    const hasSession = version !== undefined && version < MODERN_REVISION
    const sessionId = hasSession ? this.text(this.request.header('mcp-session-id')) : undefined
    return {
      ...(version !== undefined && { 'mcp.protocol.version': version }),
      ...(sessionId !== undefined && { 'mcp.session.id': sessionId }),
      ...(name !== undefined && { 'mcp.client.name': name }),
      ...(clientVersion !== undefined && { 'mcp.client.version': clientVersion }),
      ...this.#actor,
    }
  }

  /** The address of the client as an attribute of spans, if it is recorded. */
  get clientAddress(): Record<string, string> {
    const address = this.#recordsClientAddress ? this.request.clientAddress : undefined
    return address === undefined ? {} : { 'client.address': address }
  }

  /** Returns a string that the client has sent, redacted and shortened. Returns undefined for other values. */
  readonly text = (value: unknown): string | undefined => clientText(value, this.#redact)

  /** Returns the parts of a JSON-RPC message that are recorded. */
  observed(message: unknown): ObservedMessage {
    return observedMessage(message, this.#redact)
  }

  identify(auth: AuthInfo): void {
    this.#redactor = new TokenRedactor(auth.token)
    this.#actor = auth.act && this.#attributesOf(auth.act)
    const user = auth.user as object
    const id = [memberOf(user, 'id'), memberOf(user, 'sub'), auth.clientId].find((one) => isId(one))
    // A session of another implementation may return a promise, which may reject.
    if (id !== undefined) tryOrUndefined(() => this.session?.actor('user', this.#redact(String(id), MAX_ID)))
  }

  /** Only the current actor is recorded. */
  #attributesOf({ sub, iss, client_id }: Actor): Record<string, string> {
    return {
      ...(sub !== undefined && { 'kit.mcp.auth.act.sub': this.#redact(sub, MAX_ID) }),
      ...(iss !== undefined && { 'kit.mcp.auth.act.iss': this.#redact(iss, MAX_ID) }),
      ...(client_id !== undefined && { 'kit.mcp.auth.act.client_id': this.#redact(client_id, MAX_ID) }),
    }
  }

  /** Returns the arguments and the result of a tool as attributes, if they are recorded. */
  payloads(args: unknown, result: unknown): Payloads {
    return this.#recordsPayloads ? payloads(this.redactor, args, result) : {}
  }

  /** Returns the arguments and the result of a tool as attributes of a span, if they are recorded. */
  payloadTexts(args: unknown, result: unknown): Record<string, string> {
    const manager = this.#manager
    if (manager === undefined) return {}
    return payloadTexts(this.payloads(args, result), (given) => manager.redact(given))
  }

  /** Emits an event of a call. */
  emitOfCall(event: EventName, call: ObservedMessage, durationMs: number, details: EventDetails): void {
    const { isTimed, hasPayloads, errorType }: EventRule = EVENTS[event]
    const { failure, reference, purpose, reached, confirmation } = details
    const reason = this.text(details.reason)
    const type = errorType?.(failure)
    const attributes = {
      ...messageAttributes(call),
      ...this.sharedAttributes,
      ...(hasPayloads && this.payloads(call.args, details.result)),
      ...(purpose !== undefined && { 'kit.mcp.policy.purpose': purpose }),
      ...(reason !== undefined && { 'kit.mcp.policy.reason': reason }),
      ...(reached !== undefined && {
        limit: reached.limit,
        'limit.max': reached.max,
        'limit.actual': reached.actual,
      }),
      ...(confirmation !== undefined && {
        'kit.mcp.confirm.hash': confirmation.hash,
        ...(confirmation.reason !== undefined && { 'kit.mcp.confirm.reason': confirmation.reason }),
      }),
      ...(type !== undefined && { 'error.type': type }),
      ...(reference !== undefined && { 'kit.error.reference': reference }),
      ...(isTimed && { duration_ms: durationMs }),
    }
    this.emit(event, attributes, failure)
  }

  /** Emits an event of a task. */
  emitOfTask(event: EventName, { tool, reference, errorType, durationMs }: ObservedTask): void {
    this.emit(event, {
      'gen_ai.tool.name': tool,
      'kit.mcp.task.reference': reference,
      ...this.sharedAttributes,
      ...(errorType !== undefined && { 'error.type': errorType }),
      ...(durationMs !== undefined && { duration_ms: durationMs }),
    })
  }

  /** Emits an event. Never throws. @param failure the thrown value, if any */
  emit(
    event: EventName,
    attributes: Attributes,
    failure?: Failure,
    level: EventRule['level'] = EVENTS[event].level,
  ): void {
    tryOrUndefined(() => {
      const input = { level, attributes, ...(failure !== undefined && { error: this.#textsOf(failure) }) }
      if (!this.#hasEnded) return this.session?.emit(`kit.mcp.${event}`, input)
      // A tool may still run after its client has disconnected.
      const { sessionId, actor } = this.session?.getState() ?? {}
      return this.#manager?.emit(`kit.mcp.${event}`, { ...input, sessionId, actor })
    })
  }

  end(): void {
    this.#hasEnded = true
    // The promise is not awaited. It does not reject.
    void tryOrUndefined(() => this.session?.end())
  }

  readonly #redact = (text: string, max: number): string => this.redactor.cut(text, max)

  /** Describes a thrown value. The description of an object without a message is its JSON, redacted by the manager. */
  #textsOf({ thrown }: Failure): ErrorTexts {
    return this.redactor.thrown(thrown, (object) =>
      tryOrUndefined(() => JSON.stringify(this.#manager?.redact({ thrown: object }).thrown)),
    )
  }
}

function isId(value: unknown): value is string | number | bigint {
  return (typeof value === 'string' && value !== '') || typeof value === 'number' || typeof value === 'bigint'
}
