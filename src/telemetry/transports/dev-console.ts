import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { environmentVariable, processId } from '../../base/runtime.ts'
import type { TelemetryTransport, TelemetryTransportMeta } from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { telemetryOptions } from '../options.ts'
import { HttpTarget, jsonHeaders } from './http/http-target.ts'
import { checkUrl } from './http/target-options.ts'
import { BatchQueue } from './queue/batch-queue.ts'
import type { Outcome } from './queue/batch-queue-options.ts'
import { readTransportOptions } from './transport-options.ts'

/** The options of `DevConsoleTransportAdapter.create()`. */
export interface DevConsoleTransportOptions {
  /**
   * The URL of the console, on a loopback host. Defaults to the environment variable `MCP_GATEKIT_DEV_URL`, which
   * `mcp-gatekit dev` sets. Without either, nothing is sent.
   */
  readonly url?: string | URL | undefined
}

const RULES = { url: optional(checkConsoleUrl) } satisfies RulesFor<DevConsoleTransportOptions>

const VARIABLE = 'MCP_GATEKIT_DEV_URL'
/** The place of the function that `mcp-gatekit dev` provides. It returns the current HTTP request. */
const CURRENT_REQUEST: unique symbol = Symbol.for('mcp-gatekit.dev.request')
/** The maximum number of events in a request. */
const BATCH = 500
/** The time that an event waits for others. */
const WINDOW_MS = 20
const TIMEOUT_MS = 2000
/** The pause after the console did not respond. */
const PAUSE_MS = 500

/**
 * Shows events in the console of `mcp-gatekit dev`.
 *
 * It may stay in a production server. If the server does not run in `mcp-gatekit dev`, it sends nothing, counts every event
 * as delivered, and counts it in `unsent`. Events are sent in batches, only to a loopback host, and never twice. If the
 * console does not respond, they fail.
 *
 * @example
 * ```ts
 * import { DevConsoleTransportAdapter, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(DevConsoleTransportAdapter.create())
 * ```
 * @see docs/reference/dev.md
 */
export class DevConsoleTransportAdapter implements TelemetryTransport {
  readonly type: string = 'dev-console'
  /** The maximum number of pending events. Bursts of ten thousand events are common during development. */
  readonly maxPending: number = 50_000
  readonly #target: HttpTarget | undefined
  readonly #queue: BatchQueue<TelemetryEnvelope>
  #sender: object = { pid: processId() }
  #unsent = 0

  private constructor(url: string | undefined) {
    this.#target = url === undefined ? undefined : new HttpTarget(url)
    this.#queue = new BatchQueue({
      type: this.type,
      ordered: true,
      maxItems: BATCH,
      delayMs: WINDOW_MS,
      maxAttempts: 1,
      backOff: { firstMs: 0, maxMs: 0 },
      send: (events, { signal }) => this.#send(events, signal),
    })
  }

  /**
   * Creates the transport.
   * @param options the URL of the console.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the URL is not that of a loopback host.
   */
  static create(options: DevConsoleTransportOptions = {}): DevConsoleTransportAdapter {
    const { url } = readTransportOptions('DevConsoleTransportAdapter.create', options, RULES, [])
    if (url !== undefined) return new DevConsoleTransportAdapter(url)
    const fromEnv = environmentVariable(VARIABLE) || undefined
    if (fromEnv !== undefined) checkConsoleUrl(`the environment variable ${VARIABLE}`, fromEnv)
    return new DevConsoleTransportAdapter(fromEnv)
  }

  /** The number of events that were not sent because no console is running. */
  get unsent(): number {
    return this.#unsent
  }

  /**
   * Reads the names that the console shows.
   * @param meta the metadata of the manager.
   */
  init(meta: TelemetryTransportMeta): void {
    this.#sender = { pid: processId(), ...meta }
  }

  /**
   * Sends an event.
   * @param envelope the event.
   * @returns a promise that rejects with `TELEMETRY_TRANSPORT_FAILED` if the console has not accepted the event, or
   * `undefined` if no console is running.
   */
  handle(envelope: TelemetryEnvelope): Promise<void> | undefined {
    if (this.#target === undefined) {
      this.#unsent++
      return undefined
    }
    // In `mcp-gatekit dev`, the event also names its HTTP request.
    const request = (globalThis as { [CURRENT_REQUEST]?: () => unknown })[CURRENT_REQUEST]?.()
    return this.#queue.add(request === undefined ? envelope : ({ ...envelope, request } as TelemetryEnvelope))
  }

  /**
   * Sends all events. Resolves when they are delivered or have failed.
   * @param deadline when it aborts, the promise resolves.
   */
  flush(deadline?: AbortSignal): Promise<void> {
    return this.#queue.flush(deadline)
  }

  /**
   * Flushes. Later events fail.
   * @param deadline when it aborts, nothing more is sent, and a pending request is aborted.
   */
  shutdown(deadline?: AbortSignal): Promise<void> {
    return this.#queue.close(deadline)
  }

  async #send(events: readonly TelemetryEnvelope[], released: AbortSignal): Promise<Outcome> {
    const target = this.#target as HttpTarget
    const body = JSON.stringify({ sender: this.#sender, events })
    const result = await target.post(jsonHeaders(), body, TIMEOUT_MS, released)
    const { status } = result
    if (status !== undefined && status < 300) return { result: 'delivered' }
    const failure =
      status === undefined
        ? { reason: `the console ${result.reason}` }
        : { reason: `the console responded with ${status}`, details: { status } }
    return { result: 'failed', failure, waitMs: PAUSE_MS }
  }
}

/** Allows only loopback hosts, because events may contain personal data. */
function checkConsoleUrl(option: string, value: unknown): string {
  const url = checkUrl(option, value)
  const { protocol, hostname } = new URL(url)
  if (protocol !== 'http:' || !/^(?:localhost|\[::1\]|127(?:\.\d{1,3}){3})$/.test(hostname))
    throw telemetryOptions.invalidKind(
      option,
      'must be an http URL of a loopback host, such as http://127.0.0.1:4983',
      value,
    )
  return url
}
