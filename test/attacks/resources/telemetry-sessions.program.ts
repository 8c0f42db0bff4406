import {
  KitTelemetry,
  type KitTelemetryManager,
  LoggerTransportAdapter,
} from '../../../src/telemetry/index.ts'

/** Runs in a small heap. Neither sessions that never end nor ended sessions may stay in memory. */

const RUNS = 2_000
const BIG = 100_000

const forget = (): void => undefined
const lines: string[] = []

function manager(line: (line: string) => unknown): KitTelemetryManager {
  const logger = { debug: line, info: line, warn: line, error: line }
  return KitTelemetry.create()
    .withSampling({ infoRate: 1 })
    .withRedaction({ maxStringLength: 2 * BIG })
    .addTransport(LoggerTransportAdapter.create({ logger, format: 'json' }))
    .build()
}

const big = (index: number): string => JSON.parse(JSON.stringify(`${'x'.repeat(BIG)}${index}`))

/** Each run creates a session and starts the next run, as a job queue or a polling loop does. */
function succession(telemetry: KitTelemetryManager): Promise<void> {
  return new Promise((resolve, reject) => {
    const next = (left: number): void => {
      const session = telemetry
        .session()
        .actor('job', String(left), { text: big(left) })
        .attributes({ text: big(left) })
      session
        .run(() => {
          telemetry.emit('job.started')
          if (left === 0) resolve()
          else setImmediate(next, left - 1)
        })
        .catch(reject)
    }
    next(RUNS)
  })
}

/** Each session emits two events, so that the logger keeps its actor, and then ends. */
async function endedSessions(telemetry: KitTelemetryManager): Promise<void> {
  for (let index = 0; index < RUNS; index++) {
    const session = telemetry.session().actor('user', String(index), { text: big(index) })
    session.emit('page.opened')
    session.emit('page.closed')
    session.emit('page.closed')
    await session.end()
    if (index % 100 === 0) await new Promise(setImmediate)
  }
}

await (process.argv[2] === 'succession' ? succession : endedSessions)(manager(forget))
const other = manager((line) => lines.push(line))
await other
  .session()
  .actor('user', 'u1')
  .run(() => other.emit('page.opened'))
process.stdout.write(JSON.stringify({ lines: lines.length, actor: JSON.parse(lines[0] as string).actor.id }))
