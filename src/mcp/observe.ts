import { performance } from 'node:perf_hooks'
import type { AuthInfo } from '../oauth/auth-info.ts'
import type { Decision } from '../oauth/gate.ts'
import type { KitTelemetryManager } from '../telemetry/manager.ts'
import type { KitTelemetrySession } from '../telemetry/session.ts'

type AnyManager = KitTelemetryManager<any, any, any>
type AnySession = KitTelemetrySession<any, any, any>

/** What is said of one JSON-RPC message. */
export interface ObservedMessage {
  readonly method: string | undefined
  readonly id: string | undefined
  readonly tool: string | undefined
  readonly prompt: string | undefined
  readonly resource: string | undefined
}

/** Longest text of a client that is recorded as an attribute. */
const MAX_CLIENT_TEXT = 128

/**
 * What the gate and the adapter tell telemetry about one request: events in one session, whose actor is
 * the verified user. Telemetry never changes an answer: whatever it throws ends here.
 */
export class RequestObservation {
  readonly session: AnySession | undefined
  readonly #startedAt = performance.now()
  #protocolVersion: string | undefined
  #messages: readonly ObservedMessage[] = []
  #identified = false
  #ended = false

  constructor(manager: AnyManager) {
    this.session = attempt(() => manager.session())
  }

  /** The gate's word on everything but an accepted token. Ends the observation. */
  decided(decision: Exclude<Decision, { outcome: 'accepted' }>): void {
    switch (decision.outcome) {
      case 'refused':
        this.#emit('kit.mcp.auth.refused', 'warn', {
          reason: decision.reason,
          ...this.#attributesOf(this.#messages[0] ?? NO_MESSAGE),
          ...this.#duration(),
        })
        break
      case 'unavailable':
        this.#emit('kit.mcp.auth.unavailable', 'error', this.#duration(), decision.cause)
        break
      case 'failed':
        this.#emit('kit.mcp.request.failed', 'error', this.#duration(), decision.cause)
        break
    }
    this.end()
  }

  /** Whose token it is. */
  identify(auth: AuthInfo): void {
    this.#identified = true
    const user = auth.user as { id?: unknown; sub?: unknown } | undefined
    const id = [user?.id, user?.sub, auth.clientId].find((one) => isId(one))
    if (id !== undefined) attempt(() => this.session?.actor('user', String(id)))
  }

  /** The token and its scopes suffice. Says nothing where no token was verified. */
  accepted(): void {
    if (!this.#identified) return
    this.#emit('kit.mcp.auth.accepted', 'debug', this.#duration())
  }

  /** The messages of the request. */
  received(protocolVersion: string | undefined, messages: readonly ObservedMessage[]): void {
    this.#protocolVersion = protocolVersion
    this.#messages = messages
  }

  /** Runs `fn` with the session as the ambient one, so that what handlers emit belongs to it. */
  async run<T>(fn: () => Promise<T>): Promise<T> {
    let running: Promise<T> | undefined
    const start = (): Promise<T> => {
      running ??= fn()
      return running
    }
    void attempt(() => this.session?.run(start))
    return await start()
  }

  toolCompleted(call: ObservedMessage, durationMs: number): void {
    this.#emit('kit.mcp.tool.completed', 'info', { ...this.#attributesOf(call), duration_ms: durationMs })
  }

  toolFailed(call: ObservedMessage, durationMs: number, error: unknown, reference: string | undefined): void {
    const attributes = {
      ...this.#attributesOf(call),
      'error.type': 'tool_error',
      ...(reference !== undefined && { 'kit.error.reference': reference }),
      duration_ms: durationMs,
    }
    this.#emit('kit.mcp.tool.failed', 'error', attributes, error)
  }

  /** What the application gave for a prompt, a resource or a completion threw. */
  operationFailed(
    call: ObservedMessage,
    durationMs: number,
    error: unknown,
    reference: string | undefined,
  ): void {
    const attributes = {
      ...this.#attributesOf(call),
      ...(reference !== undefined && { 'kit.error.reference': reference }),
      duration_ms: durationMs,
    }
    this.#emit('kit.mcp.request.failed', 'error', attributes, error)
  }

  /** The response has been given in full. Ends the observation. */
  completed(status: number): void {
    if (this.#ended) return
    const outcome = {
      'http.response.status_code': status,
      ...(status >= 400 && { 'error.type': String(status) }),
      ...this.#duration(),
    }
    const messages = this.#messages.length === 0 ? [NO_MESSAGE] : this.#messages
    for (const message of messages) {
      this.#emit('kit.mcp.request.completed', 'info', { ...this.#attributesOf(message), ...outcome })
    }
    this.end()
  }

  /** Whether the end is still to come. */
  get open(): boolean {
    return !this.#ended
  }

  end(): void {
    if (this.#ended) return
    this.#ended = true
    // The session's end does not reject; it is not waited for.
    void attempt(() => this.session?.end())
  }

  #attributesOf({ method, id, tool, prompt, resource }: ObservedMessage): Record<string, unknown> {
    return {
      ...(method !== undefined && { 'mcp.method.name': method }),
      ...(this.#protocolVersion !== undefined && { 'mcp.protocol.version': this.#protocolVersion }),
      ...(id !== undefined && { 'jsonrpc.request.id': id }),
      ...(tool !== undefined && { 'gen_ai.tool.name': tool, 'gen_ai.operation.name': 'execute_tool' }),
      ...(prompt !== undefined && { 'gen_ai.prompt.name': prompt }),
      ...(resource !== undefined && { 'mcp.resource.uri': resource }),
    }
  }

  #duration(): { duration_ms: number } {
    return { duration_ms: elapsedMs(this.#startedAt) }
  }

  #emit(
    name: `kit.mcp.${string}`,
    level: 'debug' | 'info' | 'warn' | 'error',
    attributes: object,
    error?: unknown,
  ) {
    attempt(() =>
      this.session?.emit(name, {
        level,
        attributes: attributes as Record<string, unknown>,
        ...(error instanceof Error && { error }),
      }),
    )
  }
}

const NO_MESSAGE: ObservedMessage = {
  method: undefined,
  id: undefined,
  tool: undefined,
  prompt: undefined,
  resource: undefined,
}

/** Milliseconds since `startedAt`, to a thousandth. */
export function elapsedMs(startedAt: number): number {
  return Math.round((performance.now() - startedAt) * 1000) / 1000
}

/** What may be recorded of a JSON-RPC message; texts of the client are cut. */
export function observedMessage(message: unknown): ObservedMessage {
  if (typeof message !== 'object' || message === null) return NO_MESSAGE
  const { method, id, params } = message as {
    method?: unknown
    id?: unknown
    params?: { name?: unknown; uri?: unknown }
  }
  return {
    method: clientText(method),
    id: clientText(typeof id === 'number' ? String(id) : id),
    tool: method === 'tools/call' ? clientText(params?.name) : undefined,
    prompt: method === 'prompts/get' ? clientText(params?.name) : undefined,
    resource: method === 'resources/read' ? clientText(params?.uri) : undefined,
  }
}

/** A text that a client sent, short enough to record. */
export function clientText(value: unknown): string | undefined {
  return typeof value === 'string' ? value.slice(0, MAX_CLIENT_TEXT) : undefined
}

function isId(value: unknown): value is string | number {
  return (typeof value === 'string' && value !== '') || typeof value === 'number'
}

function attempt<T>(fn: () => T): T | undefined {
  try {
    const result = fn()
    if (result instanceof Promise) result.catch(() => undefined)
    return result
  } catch {
    return undefined
  }
}
