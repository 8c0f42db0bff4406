import {
  setStatsSource,
  type TelemetryStats,
  type TelemetryTransport,
  type TelemetryTransportMeta,
} from '../delivery/transport.ts'
import type { TelemetryEnvelope } from '../envelope/envelope.ts'
import { telemetryOptions } from '../options.ts'
import { HttpTarget, jsonHeaders, type PostResult } from './http/http-target.ts'
import { checkUrl, readTargetOptions } from './http/target-options.ts'
import { BatchQueue } from './queue/batch-queue.ts'
import type { Outcome } from './queue/batch-queue-options.ts'

/** What `DevConsoleTransportAdapter.create()` takes. */
export interface DevConsoleTransportOptions {
  /**
   * Where the console takes events, on loopback. Default: the environment variable `MCP_GATEKIT_DEV_URL`.
   * `mcp-gatekit dev` sets it; where there is neither, nothing is sent.
   */
  readonly url?: string | undefined
}

const VARIABLE = 'MCP_GATEKIT_DEV_URL'
/** Most events of one request. */
const BATCH = 500
/** How long an event waits for others. */
const WINDOW_MS = 20
const TIMEOUT_MS = 2000
/** A console that does not answer is left alone for so long. */
const PAUSE_MS = 500
/** How often the manager's counters are looked at: they change without events too. */
const STATS_INTERVAL_MS = 500

/**
 * Shows events in the console of `mcp-gatekit dev`, together with what `manager.stats()` says.
 *
 * It may stay in a server for good: without `mcp-gatekit dev` around the server it sends nothing, and every event counts
 * as delivered to nobody; `unsent` says how many. Events go out in batches over loopback, to nowhere else. They are never
 * sent twice: where the console does not answer they have failed, which `stats()` counts.
 *
 * @example
 * KitTelemetry.create().addTransport(DevConsoleTransportAdapter.create())
 */
export class DevConsoleTransportAdapter implements TelemetryTransport {
  readonly type: string = 'dev-console'
  /** A burst of ten thousand events is nothing unusual while developing. */
  readonly maxPending: number = 50_000
  readonly #target: HttpTarget | undefined
  readonly #queue: BatchQueue<TelemetryEnvelope>
  #sender: object = { pid: process.pid }
  #stats: (() => TelemetryStats) | undefined
  #sentStats: string | undefined
  #timer: NodeJS.Timeout | undefined
  #unsent = 0

  private constructor(url: string | undefined) {
    // A proxy is not for loopback.
    this.#target = url === undefined ? undefined : new HttpTarget(url, {}, () => undefined)
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

  /** @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an address that is not on loopback */
  static create(options: DevConsoleTransportOptions = {}): DevConsoleTransportAdapter {
    const { url } = readTargetOptions('DevConsoleTransportAdapter', options, [], { url: checkConsoleUrl })
    if (url !== undefined) return new DevConsoleTransportAdapter(url)
    const given = process.env[VARIABLE] || undefined
    if (given !== undefined) checkConsoleUrl(`the environment variable ${VARIABLE}`, given)
    return new DevConsoleTransportAdapter(given)
  }

  /** How many events were shown to nobody, as there is no console. */
  get unsent(): number {
    return this.#unsent
  }

  /** @internal */
  [setStatsSource](stats: () => TelemetryStats): void {
    this.#stats = stats
  }

  init(meta: TelemetryTransportMeta): void {
    this.#sender = { pid: process.pid, ...meta }
    if (this.#target === undefined) return
    this.#timer = setInterval(() => void this.#sendStats(), STATS_INTERVAL_MS).unref()
  }

  /** @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_FAILED`, by rejecting, when the console has not taken the event */
  handle(envelope: TelemetryEnvelope): Promise<void> | undefined {
    if (this.#target !== undefined) return this.#queue.add(envelope)
    this.#unsent++
    return undefined
  }

  flush(): Promise<void> {
    return this.#queue.flush()
  }

  /**
   * Flushes, and tells the console how the counters end.
   * @param deadline when it aborts, nothing more is sent, and a request under way does not keep the process alive
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    clearInterval(this.#timer)
    await this.#queue.close(deadline)
    if (deadline?.aborted !== true) await this.#sendStats(deadline)
    await this.#target?.close()
  }

  async #send(events: readonly TelemetryEnvelope[], released: AbortSignal): Promise<Outcome> {
    const answer = await this.#post(this.#target as HttpTarget, events, released)
    const { status } = answer
    if (status !== undefined && status < 300) return { result: 'delivered' }
    const failure =
      status === undefined
        ? { reason: `the console ${answer.reason}` }
        : { reason: `the console answered ${status}`, details: { status } }
    return { result: 'failed', failure, waitMs: PAUSE_MS }
  }

  /** Tells the counters, if they are others than last time. Never rejects. */
  async #sendStats(released?: AbortSignal): Promise<void> {
    if (this.#target === undefined || JSON.stringify(this.#readStats()) === this.#sentStats) return
    await this.#post(this.#target, [], released)
  }

  #post(
    target: HttpTarget,
    events: readonly TelemetryEnvelope[],
    released: AbortSignal | undefined,
  ): Promise<PostResult> {
    const stats = this.#readStats()
    this.#sentStats = JSON.stringify(stats)
    const body = JSON.stringify({ sender: this.#sender, stats, events })
    return target.post(jsonHeaders(), body, TIMEOUT_MS, released)
  }

  /** With what may be told of errors: their text, which holds no secret. */
  #readStats(): object | undefined {
    const stats = this.#stats?.()
    if (stats === undefined) return undefined
    const transports = stats.transports.map(({ lastError, ...counters }) => ({
      ...counters,
      ...(lastError !== undefined && { lastError: lastError.message }),
    }))
    return { ...stats, transports }
  }
}

/** Loopback alone: events are for nobody else. */
function checkConsoleUrl(option: string, value: unknown): void {
  checkUrl(option, value)
  const { protocol, hostname } = new URL(value as string)
  if (protocol !== 'http:' || !/^(?:localhost|\[::1\]|127(?:\.\d{1,3}){3})$/.test(hostname))
    throw telemetryOptions.invalidKind(
      option,
      'must be an http URL of a loopback host, such as http://127.0.0.1:4983',
      value,
    )
}
