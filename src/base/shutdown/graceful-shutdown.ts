import { endOnSignals } from '../end-on-signals.ts'
import type { NodeMiddleware } from '../http/node-middleware.ts'
import { optionChecksOf } from '../options/option-checks.ts'
import { optional, type RulesFor } from '../options/option-rules.ts'
import { requiredModule } from '../runtime.ts'
import { within } from '../within.ts'
import { type HttpServer, isHttp2Server, OpenConnections } from './open-connections.ts'

const { callable, fittingKind, invalidKind, invalidOption, readOptions, wholeNumber } =
  optionChecksOf('gracefulShutdown')

/** The part of a telemetry manager that a shutdown uses. */
export interface ShutdownTelemetry<Stats = unknown> {
  /** Flushes pending events and closes transports within `timeoutMs`. */
  shutdown(options: { readonly timeoutMs: number }): Promise<unknown>
  /** Returns statistics of the events, for the report. */
  stats(): Stats
}

/** The part of the tasks of an adapter that a shutdown uses. */
export interface ShutdownTasks {
  /** Waits for running tasks, and marks those as failed that have not ended within `timeoutMs`. */
  close(options: { readonly timeoutMs: number }): Promise<unknown>
}

/** Options of {@link gracefulShutdown}. */
export interface GracefulShutdownOptions<Stats = unknown> {
  /**
   * The tasks of an adapter (`adapter.tasks`). They end in the same time as requests. Those that do not are marked as failed.
   */
  readonly tasks?: ShutdownTasks | undefined
  /** The events of an adapter (`adapter.events`). Their streams end, and deliveries to webhooks that run finish. */
  readonly events?: ShutdownTasks | undefined
  /** A telemetry manager, which is flushed and shut down after the last request, in the remaining time. */
  readonly telemetry?: ShutdownTelemetry<Stats> | undefined
  /**
   * The maximum time from the end of the readiness delay to the end of the shutdown. With telemetry, the last fifth of it is
   * reserved for the flush, and requests that are still running then are cut. Defaults to 25 000 ms, because orchestrators
   * usually kill a process after 30 000 ms.
   */
  readonly timeoutMs?: number | undefined
  /**
   * The time during which the server reports that it is not ready but still serves requests, so that load balancers notice.
   * Defaults to 0 ms.
   */
  readonly readinessDelayMs?: number | undefined
  /**
   * The time during which idle connections stay open after the server has stopped accepting new ones. One more request is
   * served on each of them. Set it if a proxy keeps connections to the server open: a request that the proxy sends at the
   * moment of the shutdown would otherwise be lost, and proxies do not retry a POST. It is part of `timeoutMs`. Values from 1
   * to 999 count as 1 000. Defaults to 0 ms, which closes idle connections at once.
   */
  readonly idleGraceMs?: number | undefined
  /** The signals that start the shutdown and then end the process. A second signal ends it at once. Defaults to none. */
  readonly signals?: readonly NodeJS.Signals[] | undefined
  /** Called when all connections and telemetry are closed, before the process ends. Close your own resources here. */
  readonly onClosed?: ((report: ShutdownReport<Stats>) => unknown) | undefined
}

/** The result of a shutdown. Its numbers are 0 if all requests were completed. */
export interface ShutdownReport<Stats = unknown> {
  /** The number of connections that were cut. */
  readonly openConnections: number
  /** The number of requests whose response was not complete. */
  readonly pendingRequests: number
  /** The return value of `telemetry.stats()`. Absent without telemetry. */
  readonly telemetry?: Stats
}

/** The state of a server, and the method to shut it down. Returned by {@link gracefulShutdown}. */
export interface GracefulShutdown<Stats = unknown> {
  /** `true` until the shutdown begins. */
  readonly ready: boolean
  /** Aborts just before event streams are ended, so that you can send a last message on them. */
  readonly signal: AbortSignal
  /** Creates middleware for a readiness probe. It responds with 200 while `ready`, and with 503 afterwards. */
  readiness(): NodeMiddleware
  /** Starts the shutdown. Further calls return the same promise, which never rejects. */
  close(): Promise<ShutdownReport<Stats>>
}

/** The part of the time that is kept for telemetry. */
const TELEMETRY_SHARE = 0.2

/** The part of the time for requests that is kept for marking tasks as failed. */
const TASK_SHARE = 0.1

/** The interval at which event streams are ended that were opened during the shutdown. */
const LATE_STREAMS_MS = 100

/** The time that a process may take to end by itself after the shutdown, before it is ended. */
const LINGER_MS = 1_000

/**
 * Prepares a server for a graceful shutdown. Call it before the server listens, because it does not see earlier connections.
 *
 * `close()` shuts the server down in these steps:
 * 1. The readiness probe responds with 503, and the server keeps working for `readinessDelayMs`.
 * 2. The server stops accepting connections and closes idle ones. HTTP/2 connections are closed with GOAWAY.
 * 3. `signal` aborts, and event streams are ended.
 * 4. Running requests and tasks finish. Responses contain `Connection: close`.
 * 5. What has not finished in time is cut, and telemetry is shut down.
 *
 * Upgraded connections, such as WebSockets, stay open until they end or the time is over; end them when `signal` aborts.
 * @param server a server of `node:http`, `node:https`, or `node:http2`.
 * @param options time limits, telemetry, and signals. Signal handlers are installed only for `signals`.
 * @returns the state of the server, and the methods `close()` and `readiness()`.
 * @throws {KitMcpConfigError} if `server` is something else, or an option is invalid.
 * @example
 * ```ts
 * import { createServer } from 'node:http'
 * import express from 'express'
 * import { gracefulShutdown } from 'mcp-gatekit/gate'
 *
 * const app = express()
 * const server = createServer(app)
 * const shutdown = gracefulShutdown(server, { signals: ['SIGTERM', 'SIGINT'] })
 * app.get('/ready', shutdown.readiness())
 * server.listen(3000)
 * ```
 * @see docs/guides/many-nodes.md
 */
export function gracefulShutdown<Stats = unknown>(
  server: HttpServer,
  options: GracefulShutdownOptions<Stats> = {},
): GracefulShutdown<Stats> {
  if (typeof server?.close !== 'function' || !(isHttp1Server(server) || isHttp2Server(server)))
    throw invalidKind('server', SERVER, server)
  const expected = 'must be called with options such as { telemetry, timeoutMs: 25_000 }'
  const read = readOptions('gracefulShutdown', expected, options, RULES)
  const { tasks, events, telemetry, timeoutMs, readinessDelayMs, idleGraceMs, signals, onClosed } = read
  const connections = new OpenConnections(server)
  const ending = new AbortController()
  let closing: Promise<ShutdownReport<Stats>> | undefined
  const close = (): Promise<ShutdownReport<Stats>> => {
    closing ??= shutDown()
    return closing
  }

  const shutDown = async (): Promise<ShutdownReport<Stats>> => {
    if (readinessDelayMs > 0) await delay(readinessDelayMs)
    const deadline = Date.now() + timeoutMs
    const drained = connections.drain(idleGraceMs)
    ending.abort()
    // Listeners of the signal run first, including their promise callbacks.
    await delay(0)
    connections.endStreams()
    const later = setInterval(() => connections.endStreams(), LATE_STREAMS_MS)
    const timeForRequests = timeoutMs * (telemetry === undefined ? 1 : 1 - TELEMETRY_SHARE)
    // The last tenth is kept for marking the tasks that have not ended.
    const timeForTasks = Math.floor(timeForRequests * (1 - TASK_SHARE))
    const end = (one: ShutdownTasks | undefined) => settled(() => one?.close({ timeoutMs: timeForTasks }))
    const tasksEnded = Promise.all([end(tasks), end(events)])
    await settled(() => within(Promise.all([drained, tasksEnded]), timeForRequests, late))
    clearInterval(later)
    const left = { openConnections: connections.count, pendingRequests: connections.pending }
    connections.destroy()
    let report: ShutdownReport<Stats> = left
    if (telemetry !== undefined) {
      // Requests that were cut are reported to telemetry when their socket closes.
      await delay(0)
      const timeLeft = Math.max(0, deadline - Date.now())
      const flushed = settled(() => telemetry.shutdown({ timeoutMs: timeLeft }))
      await settled(() => within(flushed, timeLeft, late))
      await settled(() => {
        report = { ...left, telemetry: telemetry.stats() }
      })
    }
    await settled(() => onClosed?.(report))
    return report
  }

  endOnSignals(signals, close, LINGER_MS)
  return {
    get ready() {
      return closing === undefined
    },
    signal: ending.signal,
    readiness: () => (_req, res) => {
      const ready = closing === undefined
      res.writeHead(ready ? 200 : 503, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' })
      res.end(`{"status":"${ready ? 'ready' : 'closing'}"}`)
    },
    close,
  }
}

function isHttp1Server(server: HttpServer): boolean {
  return 'closeIdleConnections' in server && typeof server.closeIdleConnections === 'function'
}

function closable(option: string, value: unknown): ShutdownTasks {
  if (typeof (value as Partial<ShutdownTasks> | null)?.close === 'function') return value as ShutdownTasks
  throw invalidKind(option, `must be the member ${option} of an adapter`, value)
}

const SERVER =
  'must be a server of node:http, node:https, or node:http2, such as the return value of app.listen()'
const SIGNALS = `must be an array of signals that can be handled, such as ['SIGTERM', 'SIGINT']`

const RULES = {
  tasks: optional(closable),
  events: optional(closable),
  telemetry: optional(
    fittingKind<ShutdownTelemetry<any>>(
      (manager) => typeof manager?.shutdown === 'function' && typeof manager.stats === 'function',
      'must be the return value of KitTelemetry…build()',
    ),
  ),
  timeoutMs: optional(wholeNumber(1), 25_000),
  readinessDelayMs: optional(wholeNumber(0), 0),
  idleGraceMs: optional(wholeNumber(0), 0),
  signals: optional((option, signals): readonly NodeJS.Signals[] => {
    if (Array.isArray(signals) && signals.every(canBeHandled)) return [...new Set(signals)]
    const wrong = Array.isArray(signals) ? signals.find((signal) => !canBeHandled(signal)) : signals
    throw invalidOption(option, SIGNALS, wrong)
  }, []),
  onClosed: optional(
    callable<(report: ShutdownReport<any>) => unknown>(
      'set it to a function that is called when all connections are closed',
    ),
  ),
} satisfies RulesFor<GracefulShutdownOptions>

function canBeHandled(signal: unknown): boolean {
  return (
    typeof signal === 'string' &&
    Object.hasOwn(requiredModule('node:os').constants.signals, signal) &&
    !['SIGKILL', 'SIGSTOP'].includes(signal)
  )
}

function delay(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

const late = () => new Error('the time is over')

/** Calls a function and ignores its errors. */
async function settled(run: () => unknown): Promise<void> {
  try {
    await run()
  } catch {
    // The shutdown must continue.
  }
}
