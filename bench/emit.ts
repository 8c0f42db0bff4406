import { createHash } from 'node:crypto'
import { Writable } from 'node:stream'
import { pino } from 'pino'
import { KitTelemetry } from '../src/telemetry/builder.ts'
import { median } from './report.ts'

const ROUNDS = 9
const MS_PER_ROUND = 400
const BATCH = 1000

let counter = 0

/** Eight attributes, one of them nested; `password` is denied, `email` is hashed. Every e-mail is new. */
function attributes(): Record<string, unknown> {
  return {
    plan: 'team',
    seats: 12,
    amount: 99.5,
    currency: 'EUR',
    email: `ada.lovelace+${counter++}@example.com`,
    password: 'correct horse battery staple',
    trial: false,
    card: { brand: 'visa', last4: '4242', country: 'GB' },
  }
}

type Emit = () => void

function gatekit(infoRate: number): Emit {
  const telemetry = KitTelemetry.create()
    .withService('bench')
    .withEnvironment('production')
    .withVersion('1.0.0')
    .withSampling({ infoRate })
    .withRedaction({ denylistKeys: ['password'], hashKeys: ['email'] })
    .addTransport({ type: 'no-op', handle: () => undefined })
    .build()
  const session = telemetry.session().actor('user', 'u1').scope('org', 'o1')
  return () => session.emit('billing.invoice.paid', { attributes: attributes() })
}

function pinoWithRedact(): Emit {
  const stream = new Writable({ write: (_chunk, _encoding, done) => done() })
  const logger = pino(
    {
      base: { service: 'bench', environment: 'production', version: '1.0.0' },
      timestamp: pino.stdTimeFunctions.isoTime,
      redact: {
        paths: ['attributes.password', 'attributes.email'],
        censor: (value, path) =>
          path[path.length - 1] === 'email'
            ? createHash('sha256').update(String(value)).digest('hex')
            : undefined,
      },
    },
    stream,
  )
  const session = logger.child({
    sessionId: 'ses_1',
    actor: { type: 'user', id: 'u1' },
    scope: { type: 'org', id: 'o1' },
  })
  return () => session.info({ attributes: attributes() }, 'billing.invoice.paid')
}

/** (c) Events per second from `emit` to a transport or stream that does nothing. */
export async function benchEmit(): Promise<void> {
  const contestants: Record<string, Emit> = {
    'pino 10 with redact, to text': pinoWithRedact(),
    'mcp-gatekit, to an object': gatekit(1),
    'mcp-gatekit, sampled out': gatekit(0),
  }
  const figures: Record<string, number[]> = Object.fromEntries(
    Object.keys(contestants).map((name) => [name, []]),
  )
  for (let round = 0; round <= ROUNDS; round++) {
    for (const [name, emit] of Object.entries(contestants)) {
      const perSecond = await rate(emit)
      if (round > 0) figures[name]?.push(perSecond)
    }
  }
  console.log('\n### (c) emit, with redaction\n')
  console.log('| contestant | events/s | µs each | ratio to pino |\n|---|---|---|---|')
  const pinoRates = figures['pino 10 with redact, to text'] as number[]
  for (const [name, rates] of Object.entries(figures)) {
    const ratio = median(rates.map((value, round) => value / (pinoRates[round] as number)))
    const each = 1e6 / median(rates)
    console.log(
      `| ${name} | ${Math.round(median(rates)).toLocaleString('en')} | ${each.toFixed(2)} | ${ratio.toFixed(1)} |`,
    )
  }
}

async function rate(emit: Emit): Promise<number> {
  const start = performance.now()
  let done = 0
  while (performance.now() - start < MS_PER_ROUND) {
    for (let index = 0; index < BATCH; index++) emit()
    done += BATCH
  }
  const perSecond = (done / (performance.now() - start)) * 1000
  // Leave room for what streams still have to do.
  await new Promise((resolve) => setImmediate(resolve))
  return perSecond
}
