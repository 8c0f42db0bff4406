import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { KitTelemetry, OtlpTransportAdapter, type TelemetryTransportStats } from '../../src/index.ts'

export interface OtlpClientOptions {
  readonly url: string
  readonly encoding: 'json' | 'protobuf'
  /** The number of events, which are emitted in one tick. */
  readonly events: number
  readonly timeout?: number
  readonly retryBudgetMs?: number
  /** The timeouts of the flush and the shutdown. */
  readonly flushMs: number
  readonly shutdownMs: number
}

/** The result of a run, as an application sees it. */
export interface OtlpClientReport {
  readonly stats: TelemetryTransportStats
  readonly lastError: string | undefined
  readonly flushMs: number
  readonly shutdownMs: number
  /** The number of checks of the delivery statistics, and the inconsistencies that they found. */
  readonly samples: number
  readonly broken: readonly string[]
  /** The number of timers that keep the process alive after the shutdown. */
  readonly openTimers: number
}

/** Emits, flushes, and shuts down through the manager. Checks the delivery statistics all the time. */
export async function runOtlpClient(options: OtlpClientOptions): Promise<OtlpClientReport> {
  const { events, url, encoding, timeout, retryBudgetMs } = options
  const telemetry = KitTelemetry.create()
    .withLogger(false)
    .withService('loss')
    .withSampling({ infoRate: 1 })
    .addTransport(OtlpTransportAdapter.create({ url, encoding, timeout, retryBudgetMs }))
    .build()
  const broken: string[] = []
  let samples = 0
  let before: TelemetryTransportStats | undefined
  const stats = () => telemetry.stats().transports[0] as TelemetryTransportStats
  const look = () => {
    const now = stats()
    const { accepted, delivered, failed, dropped, pending } = now
    samples++
    const shrunk = (['accepted', 'delivered', 'failed', 'dropped'] as const).filter(
      (name) => now[name] < (before?.[name] ?? 0),
    )
    if (accepted !== delivered + failed + dropped + pending || pending < 0 || shrunk.length > 0)
      broken.push(JSON.stringify(now))
    before = now
  }
  const sampler = setInterval(look, 1)
  for (let index = 0; index < events; index++) {
    telemetry.emit('loss.event', { attributes: { index } })
    if (index % 100 === 0) look()
  }
  const flushed = performance.now()
  await telemetry.flush({ timeoutMs: options.flushMs })
  const closed = performance.now()
  look()
  await telemetry.shutdown({ timeoutMs: options.shutdownMs })
  const ended = performance.now()
  clearInterval(sampler)
  look()
  const { lastError, ...counts } = stats()
  return {
    stats: counts,
    lastError: lastError?.message,
    flushMs: closed - flushed,
    shutdownMs: ended - closed,
    samples,
    broken,
    openTimers: process.getActiveResourcesInfo().filter((resource) => resource === 'Timeout').length,
  }
}

/**
 * Does the same in a separate process.
 * @returns the exit code, the report, and the time in ms between the report and the exit
 */
export async function spawnOtlpClient(
  options: OtlpClientOptions,
): Promise<{ code: number | null; report: OtlpClientReport; lingeredMs: number }> {
  const program = fileURLToPath(import.meta.url)
  const child = spawn(process.execPath, [program, JSON.stringify(options)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(child, 'close')
  let output = ''
  let lastOutput = 0
  child.stdout.setEncoding('utf8').on('data', (chunk: string) => {
    output += chunk
    lastOutput = performance.now()
  })
  const [code] = (await ended) as [number | null]
  return { code, report: JSON.parse(output), lingeredMs: performance.now() - lastOutput }
}

// As a program: reads options as JSON, writes the report as JSON, and ends by itself.
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const report = await runOtlpClient(JSON.parse(process.argv[2] as string))
  process.stdout.write(JSON.stringify(report))
}
