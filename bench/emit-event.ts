import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { KitTelemetry } from '../src/telemetry/builder.ts'
import { COMMON_SECRET_PATTERNS } from '../src/telemetry/envelope/secret-patterns.ts'
import { KitTelemetryEvents } from '../src/telemetry/events/event-registry.ts'
import type { KitTelemetryManager } from '../src/telemetry/manager.ts'
import { LoggerTransportAdapter } from '../src/telemetry/transports/logger.ts'

/** The name, service, and session of the event, which are the same for every contestant. */
export const EVENT = 'billing.invoice.paid'
export const SERVICE = { service: 'bench', environment: 'production', version: '1.0.0' } as const
export const SESSION = {
  sessionId: 'ses_01KAAAAAAAAAAAAAAAAAAAAAAA',
  actor: { type: 'user', id: 'u1' },
  scope: { type: 'org', id: 'o1' },
} as const

let counter = 0

/** Returns eight attributes, one of them nested. `password` is to be removed and `email` hashed. Each e-mail address is new. */
export function attributes() {
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

/** Returns twelve attributes of a typical request, without a secret. Some strings are new for each event, as in a server. */
export function requestAttributes() {
  const count = counter++
  return {
    method: 'POST',
    route: '/api/orders/:id/items',
    path: `/api/orders/${count}/items`,
    status: 201,
    durationMs: 12.25,
    requestId: `550e8400-e29b-41d4-a716-${446655440000 + count}`,
    userAgent: 'Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0',
    region: 'eu-central-1',
    tenant: `tenant-${count % 1000}`,
    cached: false,
    message: `order ${count} was updated by the customer`,
    queue: { name: 'orders', depth: 12, worker: 'worker-7' },
  }
}

/** Returns a sink that encodes lines, as every real sink must, and drops them. */
export function nullSink() {
  let bytes = 0
  return {
    write(line: string): void {
      bytes += Buffer.byteLength(line)
    },
    bytes: () => bytes,
  }
}

/** A measured subject: `emit` is called once per event, `settle` after each batch to wait for queued events. */
export interface Contestant {
  emit(): void
  settle?(): Promise<unknown>
  /** Runs the measured loop in an async context, if the subject needs one. */
  around?<T>(loop: () => Promise<T>): Promise<T>
}

/** The work of the caller without any library. */
export const caller: Contestant & { last?: unknown } = {
  emit(): void {
    // The reference prevents the engine from optimizing the object away.
    caller.last = attributes()
  },
}

export interface GatekitOptions {
  readonly infoRate?: number
  readonly transports?: number
  readonly globs?: number
  readonly denied?: number
  readonly registered?: number
  readonly json?: boolean
  readonly attributes?: 'given' | 'lazy' | 'none' | 'request'
  /** Searches strings for `COMMON_SECRET_PATTERNS`. */
  readonly patterns?: boolean
  /** Adds attributes to every event, of an object and of a function, and the ids of a span that is active. */
  readonly common?: boolean
  /** The number of nested runs around the event. Defaults to 0: the session itself emits the event. */
  readonly runs?: number
}

const SPAN = { traceId: '4bf92f3577b34da6a3ce929d0e0e4736', spanId: '00f067aa0ba902b7', traceFlags: 1 }

const ANY_SCHEMA = {
  '~standard': { version: 1, vendor: 'bench', validate: (value: unknown) => ({ value }) },
} as const

/** Registers `count` events with `builder` in groups of a hundred, and returns their names. */
function register(builder: KitTelemetry, count: number): { builder: KitTelemetry; names: string[] } {
  let namespace: any = KitTelemetryEvents.namespace('bench')
  const names: string[] = []
  for (let start = 0; start < count; start += 100) {
    namespace = namespace.group(`group${start}`, (group: any) => {
      for (let index = start; index < Math.min(start + 100, count); index++) {
        group = group.event(`event${index}`, ANY_SCHEMA)
        names.push(`bench.group${start}.event${index}`)
      }
      return group
    })
  }
  return { builder: builder.addEvents(namespace.build()), names }
}

/** Returns this package in one of the compared configurations. */
export function gatekit(options: GatekitOptions = {}): Contestant {
  const {
    infoRate = 1,
    transports = 1,
    globs = 0,
    denied = 1,
    registered = 0,
    json = false,
    patterns = false,
  } = options
  const { attributes: given = 'given', common = false, runs = 0 } = options
  let builder: KitTelemetry = KitTelemetry.create()
    .withService(SERVICE.service)
    .withEnvironment(SERVICE.environment)
    .withVersion(SERVICE.version)
    .withValidation({ mode: 'none' })
    .withSampling({ infoRate, never: Array.from({ length: globs }, (_, index) => `*.noise${index}.*`) })
    .withRedaction({
      denylistKeys: ['password', ...Array.from({ length: denied - 1 }, (_, index) => `secret${index}`)],
      hashKeys: ['email'],
      ...(patterns ? { patterns: COMMON_SECRET_PATTERNS } : {}),
    })
  if (json) {
    const sink = nullSink()
    const write = (line: string) => sink.write(`${line}\n`)
    const logger = { debug: write, info: write, warn: write, error: write }
    builder = builder.addTransport(LoggerTransportAdapter.create({ logger, format: 'json' }))
  } else {
    for (let index = 0; index < transports; index++) {
      builder = builder.addTransport({ type: `no-op-${index}`, handle: () => undefined })
    }
  }
  if (common) {
    context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
    builder = builder
      .withAttributes({ region: 'eu-central-1' })
      .withAttributes(() => ({ instance: 'i-0a1b2c3d' }))
      .withTraceContext()
  }
  let names: string[] | undefined
  if (registered > 0) ({ builder, names } = register(builder, registered))
  const manager: KitTelemetryManager = builder.build()
  const session = manager.session().actor('user', 'u1').scope('org', 'o1')
  const emitter = runs > 0 ? manager : session
  const around: Pick<Contestant, 'around'> = common
    ? { around: (loop) => context.with(trace.setSpanContext(context.active(), SPAN), loop) }
    : runs === 0
      ? {}
      : {
          around: <T>(loop: () => Promise<T>): Promise<T> => {
            let run = () => session.run(loop) as Promise<T>
            for (let index = 1; index < runs; index++) {
              const inner = run
              const outer = manager.session().attributes({ outer: index })
              run = () => outer.run(inner) as Promise<T>
            }
            return run()
          },
        }
  if (names !== undefined) {
    const registeredNames = names
    let at = 0
    return {
      ...around,
      emit: () => {
        emitter.emit(registeredNames[at] as string, { attributes: attributes() })
        at = at + 1 === registeredNames.length ? 0 : at + 1
      },
    }
  }
  if (given === 'lazy') return { ...around, emit: () => emitter.emit(EVENT, { attributes }) }
  if (given === 'request')
    return { ...around, emit: () => emitter.emit(EVENT, { attributes: requestAttributes() }) }
  if (given === 'none') return { ...around, emit: () => emitter.emit(EVENT) }
  return { ...around, emit: () => emitter.emit(EVENT, { attributes: attributes() }) }
}
