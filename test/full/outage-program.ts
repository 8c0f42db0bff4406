import { randomBytes } from 'node:crypto'
import { createInterface } from 'node:readline'
import { Redis } from 'ioredis'
import {
  HttpTransportAdapter,
  KitTelemetry,
  OtlpTransportAdapter,
  StoreStreamTransportAdapter,
  TeamChatTransportAdapter,
  type TelemetryAttributes,
  type TelemetryTransport,
} from '../../src/telemetry/index.ts'

const text = (length: number) => randomBytes(length / 2).toString('hex')

/** The attributes of a large event, by their shape. */
const SHAPES: Readonly<Record<string, (event: number) => TelemetryAttributes>> = {
  strings: () => ({ list: Array.from({ length: 200 }, () => text(5_000)) }),
  'two-byte strings': (event) => ({
    list: Array.from({ length: 60 }, (_, item) => `ж${event}-${item}-${text(4_900)}`),
  }),
  'control characters': () => ({
    list: Array.from({ length: 30 }, () => `${text(8)}${'\u0001'.repeat(4_900)}`),
  }),
  objects: () => ({ list: Array.from({ length: 30_000 }, (_, item) => ({ item })) }),
  arrays: () => ({ list: Array.from({ length: 45_000 }, (_, item) => [item]) }),
  'new keys': (event) =>
    Object.fromEntries(Array.from({ length: 300 }, (_, key) => [`k${event}_${key}`, `${event}${key}`])),
}

const TARGETS: Readonly<Record<string, (port: number) => TelemetryTransport>> = {
  http: (port) => HttpTransportAdapter.create({ url: `http://127.0.0.1:${port}`, retries: 1_000 }),
  'http in batches': (port) =>
    HttpTransportAdapter.create({
      url: `http://127.0.0.1:${port}`,
      retries: 1_000,
      batch: { maxSize: 100, maxDelayMs: 10 },
    }),
  otlp: (port) => OtlpTransportAdapter.create({ url: `http://127.0.0.1:${port}` }),
  'otlp in protobuf': (port) =>
    OtlpTransportAdapter.create({
      url: `http://127.0.0.1:${port}`,
      encoding: 'protobuf',
    }),
  chat: (port) => TeamChatTransportAdapter.create({ webhookUrl: `http://127.0.0.1:${port}` }),
  redis: (port) => {
    const store = new Redis({ port, retryStrategy: () => 20 })
    store.on('error', () => {})
    return StoreStreamTransportAdapter.create({ store })
  },
}

/**
 * Emits large events for a target, until 20 of them were dropped. Emits a last event when it reads a line, and prints the statistics after each of both.
 */
const [, , target = '', shape = '', port = ''] = process.argv
const transport = (TARGETS[target] as (port: number) => TelemetryTransport)(Number(port))
const manager = KitTelemetry.create()
  .withSampling({ infoRate: 1 })
  .withLogger(false)
  .addTransport(transport)
  .build()
const print = () => {
  const { lastError: _, ...stats } = manager.stats().transports[0] ?? {}
  console.log(JSON.stringify(stats))
}
for (let event = 0; (manager.stats().transports[0]?.dropped ?? 0) < 20; event++) {
  manager.emit('large', {
    level: 'error',
    attributes: (SHAPES[shape] as (event: number) => TelemetryAttributes)(event),
  })
  if (event % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1))
}
print()
for await (const _line of createInterface({ input: process.stdin })) {
  await manager.flush({ timeoutMs: 280_000 })
  manager.emit('last', { level: 'error' })
  await manager.flush({ timeoutMs: 280_000 })
  print()
  process.exit(0)
}
