import { fileURLToPath } from 'node:url'
import { KitTelemetry } from '../../src/telemetry/builder.ts'
import type { TelemetryTransportStats } from '../../src/telemetry/delivery.ts'
import { OtlpTransportAdapter } from '../../src/telemetry/transports/otlp.ts'

export interface OtlpClientOptions {
  readonly url: string
  readonly encoding: 'json' | 'protobuf'
  /** How many, all in one tick. */
  readonly events: number
  readonly timeout?: number
  readonly retryBudgetMs?: number
  readonly maxPending?: number
  /** Deadlines. */
  readonly flushMs: number
  readonly shutdownMs: number
}

/** What an application sees of it. */
export interface OtlpClientReport {
  readonly stats: TelemetryTransportStats
  readonly lastError: string | undefined
  readonly flushMs: number
  readonly shutdownMs: number
  /** How often the ledger was looked at, and what was wrong then. */
  readonly samples: number
  readonly broken: readonly string[]
}

/** Emits, flushes and shuts down through the manager, and looks at the ledger all the while. */
export async function runOtlpClient(options: OtlpClientOptions): Promise<OtlpClientReport> {
  const { events, url, encoding, timeout, retryBudgetMs, maxPending } = options
  const telemetry = KitTelemetry.create()
    .withService('loss')
    .withSampling({ infoRate: 1 })
    .addTransport(OtlpTransportAdapter.create({ url, encoding, timeout, retryBudgetMs, maxPending }))
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
  }
}

/** As a process: options as JSON in, report as JSON out; it ends by itself. */
if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const report = await runOtlpClient(JSON.parse(process.argv[2] as string))
  process.stdout.write(JSON.stringify(report))
}
