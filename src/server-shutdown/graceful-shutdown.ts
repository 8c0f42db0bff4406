import { constants } from 'node:os'
import type { NodeMiddleware } from '../http/node-middleware.ts'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { type HttpServer, isHttp2Server, OpenConnections } from './open-connections.ts'

const { checkFunction, checkKnownOptions, checkWholeNumber, invalidKind, invalidOption } =
  optionChecksOf('gracefulShutdown')

/** What of a telemetry manager a shutdown needs. */
export interface ShutdownTelemetry<Stats = unknown> {
  /** Flushes and closes within `timeoutMs`. */
  shutdown(options: { readonly timeoutMs: number }): Promise<unknown>
  /** What became of the events, for the report. */
  stats(): Stats
}

/** What `gracefulShutdown()` takes. Times are in milliseconds. */
export interface GracefulShutdownOptions<Stats = unknown> {
  /** Flushed and shut down after the last request, with the time that is left. */
  readonly telemetry?: ShutdownTelemetry<Stats> | undefined
  /**
   * Milliseconds from the end of the readiness delay to the end of everything. Default 25 000, as orchestrators kill
   * after 30 000. With telemetry the last fifth of it is kept for the flush: requests still running then are cut.
   */
  readonly timeoutMs?: number | undefined
  /** Milliseconds for which the server, no longer ready, goes on serving, so that load balancers notice. Default 0. */
  readonly readinessDelayMs?: number | undefined
  /**
   * Milliseconds for which connections without a request are left open once nothing new is accepted; a request that
   * comes on one of them is answered, and is its last. For servers behind a proxy that keeps connections to them: what it
   * sends at just that moment would be lost, and it may send no POST again. Default 0: they are closed at once.
   * Counts as part of `timeoutMs`. Anything below 1 000 but 0 counts as 1 000.
   */
  readonly idleGraceMs?: number | undefined
  /** Signals that start the shutdown and then end the process; the second one ends it at once. Default none. */
  readonly signals?: readonly NodeJS.Signals[] | undefined
  /** Called when everything is closed, before the process ends; for what the application closes itself. */
  readonly onClosed?: ((report: ShutdownReport<Stats>) => unknown) | undefined
}

/** What was left when the time was up; zeros after a clean shutdown. */
export interface ShutdownReport<Stats = unknown> {
  /** Connections that had to be cut. */
  readonly openConnections: number
  /** Requests that were not answered to their end. */
  readonly pendingRequests: number
  /** What `stats()` of the telemetry manager says. Absent without telemetry. */
  readonly telemetry?: Stats
}

/** What `gracefulShutdown()` gives: the state of the server, and the way to end it. */
export interface GracefulShutdown<Stats = unknown> {
  /** Whether the server wants new requests. */
  readonly ready: boolean
  /** Aborts when event streams are about to be ended: the moment for a last word on one. */
  readonly signal: AbortSignal
  /** A middleware for a readiness probe: 200 while `ready`, then 503. */
  readiness(): NodeMiddleware
  /** Starts the shutdown; further calls return the same promise. Never rejects. */
  close(): Promise<ShutdownReport<Stats>>
}

const OPTIONS = ['telemetry', 'timeoutMs', 'readinessDelayMs', 'idleGraceMs', 'signals', 'onClosed'] as const
const DEFAULT_TIMEOUT_MS = 25_000

/** The part of the time that is kept for telemetry. */
const TELEMETRY_SHARE = 0.2

/** How often streams are looked for that were opened after the others had been ended. */
const LATE_STREAMS_MS = 100

/** What a process that was told to end may take for it of its own accord, once everything is closed. */
const LINGER_MS = 1_000

/**
 * Prepares a server for an orderly end. Call it before the server listens: older connections are not known to it.
 *
 * `close()` turns the readiness probe, waits `readinessDelayMs`, stops accepting, ends idle connections and then event
 * streams, lets running requests finish (their responses carry `Connection: close`), cuts what has not finished in
 * time, and shuts telemetry down. Upgraded connections, such as WebSockets, stay open until they end or the time is up:
 * `signal` is the moment to end them. Connections of HTTP/2 are closed gracefully (GOAWAY). Signal handlers are installed for `signals` only.
 * @throws {KitMcpConfigError} for a wrong option.
 */
export function gracefulShutdown<Stats = unknown>(
  server: HttpServer,
  options: GracefulShutdownOptions<Stats> = {},
): GracefulShutdown<Stats> {
  if (typeof server?.close !== 'function' || !(isHttp1Server(server) || isHttp2Server(server)))
    throw invalidKind(
      'server',
      'must be a server of node:http, node:https, or node:http2, such as what app.listen() returns',
      server,
    )
  const { telemetry, timeoutMs, readinessDelayMs, idleGraceMs, signals, onClosed } = resolve(options)
  const connections = new OpenConnections(server)
  const ending = new AbortController()
  let closing: Promise<ShutdownReport<Stats>> | undefined

  const close = (): Promise<ShutdownReport<Stats>> => {
    closing ??= shutDown()
    return closing
  }

  const shutDown = async (): Promise<ShutdownReport<Stats>> => {
    if (readinessDelayMs > 0) await elapsed(readinessDelayMs)
    const deadline = Date.now() + timeoutMs
    const drained = connections.drain(idleGraceMs)
    ending.abort()
    // Listeners of the signal come first, those that answer by promises too.
    await elapsed(0)
    connections.endStreams()
    const later = setInterval(() => connections.endStreams(), LATE_STREAMS_MS)
    await within(timeoutMs * (telemetry === undefined ? 1 : 1 - TELEMETRY_SHARE), drained)
    clearInterval(later)
    const left = { openConnections: connections.count, pendingRequests: connections.pending }
    connections.destroy()
    if (telemetry === undefined) return await finish(left)
    // What was cut tells telemetry so when its socket closes.
    await elapsed(0)
    const timeLeft = Math.max(0, deadline - Date.now())
    await within(
      timeLeft,
      settled(() => telemetry.shutdown({ timeoutMs: timeLeft })),
    )
    return await finish({ ...left, telemetry: telemetry.stats() })
  }

  const finish = async (report: ShutdownReport<Stats>): Promise<ShutdownReport<Stats>> => {
    await settled(() => onClosed?.(report))
    return report
  }

  endOnSignals(signals, close)
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

function resolve<Stats>(options: GracefulShutdownOptions<Stats>) {
  if (!isOptionsObject(options))
    throw invalidKind('gracefulShutdown', 'takes options such as { telemetry, timeoutMs: 25_000 }', options)
  checkKnownOptions('gracefulShutdown', options, OPTIONS)
  const { telemetry, timeoutMs = DEFAULT_TIMEOUT_MS, readinessDelayMs = 0, idleGraceMs = 0 } = options
  const { signals = [], onClosed } = options
  if (
    telemetry !== undefined &&
    (typeof telemetry?.shutdown !== 'function' || typeof telemetry.stats !== 'function')
  )
    throw invalidKind('telemetry', 'must be what KitTelemetry…build() returned', telemetry)
  if (onClosed !== undefined) checkFunction('onClosed', onClosed, 'it is called when everything is closed')
  if (!Array.isArray(signals) || !signals.every(canBeHandled)) {
    throw invalidOption(
      'signals',
      `must be an array of signals that can be handled, such as ['SIGTERM', 'SIGINT']`,
      Array.isArray(signals) ? signals.find((signal) => !canBeHandled(signal)) : signals,
    )
  }
  return {
    telemetry,
    timeoutMs: checkWholeNumber('timeoutMs', timeoutMs, 1),
    readinessDelayMs: checkWholeNumber('readinessDelayMs', readinessDelayMs, 0),
    idleGraceMs: checkWholeNumber('idleGraceMs', idleGraceMs, 0),
    signals: [...new Set(signals)],
    onClosed,
  }
}

function canBeHandled(signal: unknown): boolean {
  return (
    typeof signal === 'string' &&
    Object.hasOwn(constants.signals, signal) &&
    !['SIGKILL', 'SIGSTOP'].includes(signal)
  )
}

/** The first signal closes and then ends the process, the second ends it at once with the exit code shells expect. */
function endOnSignals(signals: readonly NodeJS.Signals[], close: () => Promise<unknown>): void {
  let asked = false
  const onSignal = (signal: NodeJS.Signals): void => {
    if (asked) process.exit(128 + constants.signals[signal])
    asked = true
    void close().then(() => {
      process.exitCode ??= 0
      // What else the application holds open does not keep a closed server alive.
      setTimeout(() => process.exit(), LINGER_MS).unref()
    })
  }
  for (const signal of signals) process.on(signal, onSignal)
}

function elapsed(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** Waits for `work`, but no longer than `ms`. */
async function within(ms: number, work: Promise<unknown>): Promise<void> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms)
  })
  await Promise.race([work, late])
  clearTimeout(timer)
}

/** What the application gave may fail; a shutdown may not. */
async function settled(run: () => unknown): Promise<void> {
  try {
    await run()
  } catch {
    // There is nobody left to tell.
  }
}
