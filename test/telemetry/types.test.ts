import { expectTypeOf } from 'expect-type'
import pino from 'pino'
import { z } from 'zod'
import {
  KitTelemetry,
  KitTelemetryEvents,
  type KitTelemetryManager,
  LoggerTransportAdapter,
  type TelemetryEnvelope,
} from '../../src/telemetry/index.ts'

const billing = KitTelemetryEvents.namespace('billing')
  .event('opened', z.object({ plan: z.string() }))
  .group('invoice', (invoice) =>
    invoice.event('paid', z.object({ cents: z.coerce.number<number>(), note: z.string().optional() })),
  )
  .build()
const users = KitTelemetryEvents.namespace('users')
  .event('born', z.object({ name: z.string() }))
  .build()

const typed = KitTelemetry.create()
  .withValidation({ mode: 'none' })
  .addActor('user')
  .addActor('bot')
  .addScope('org')
  .addEvents(billing)
  .addEvents(users)
  .build()
const free = KitTelemetry.create().build()

/** As the gate of an adapter does: any manager, names of its own. */
function withTelemetry(manager: KitTelemetryManager): void {
  manager.emit('kit.mcp.auth.refused', { attributes: { reason: 'missing' } })
  manager.session().actor('user', 'u1').scope('org', 'o1').attributes({ a: 1 }).id('s').emit('anything')
}

function takesExplicitAny(manager: KitTelemetryManager<any, any, any>): void {
  withTelemetry(manager)
}

describe('types of the telemetry', () => {
  it('the types of a registry are inferred', () => {
    expectTypeOf<typeof billing.$Infer.namespace>().toEqualTypeOf<'billing'>()
    expectTypeOf<typeof billing.$Infer.keys>().toEqualTypeOf<'billing.opened' | 'billing.invoice.paid'>()
    expectTypeOf<(typeof billing.$Infer.events)['invoice.paid']>().toEqualTypeOf<{
      cents: number
      note?: string | undefined
    }>()
    expectTypeOf<keyof typeof billing.$Infer.registry>().toEqualTypeOf<
      'billing.opened' | 'billing.invoice.paid'
    >()
    expectTypeOf(billing.get.key('opened')).toEqualTypeOf<'billing.opened'>()
    // @ts-expect-error: no such event
    ;() => billing.get.key('closed')
    // @ts-expect-error: a group is not an event
    ;() => billing.get.schema('invoice')
  })

  it('emit accepts only the names and attributes of a registry', () => {
    typed.emit('billing.opened', { attributes: { plan: 'pro' } })
    typed.emit('billing.invoice.paid', { attributes: () => ({ cents: 5 }) })
    typed.emit('users.born', { attributes: { name: 'Ada' }, actor: { type: 'bot' }, error: new Error('x') })
    typed.emit('kit.mcp.tool.failed', { attributes: { duration_ms: 4 } })
    typed.session().emit('billing.opened', { scope: { type: 'org', id: 'o1' }, attributes: { plan: 'pro' } })
    ;() => {
      // @ts-expect-error: no such event
      typed.emit('billing.closed')
      // @ts-expect-error: wrong attribute
      typed.emit('billing.opened', { attributes: { plan: 5 } })
      // @ts-expect-error: undeclared attribute
      typed.emit('billing.opened', { attributes: { plan: 'pro', other: 1 } })
      // @ts-expect-error: wrong attribute of a function
      typed.emit('billing.invoice.paid', { attributes: () => ({ cents: 'x' }) })
      // @ts-expect-error: unknown level
      typed.emit('billing.opened', { attributes: { plan: 'pro' }, level: 'trace' })
      // @ts-expect-error: the session knows the names too
      typed.session().emit('billing.closed')
    }
  })

  describe('emit of an event whose schema has required members', () => {
    const shop = KitTelemetryEvents.namespace('shop')
      .event('placed', z.object({ cents: z.number(), note: z.string().optional() }))
      .event('viewed', z.object({ page: z.string().optional() }))
      .event('counted', z.object({ times: z.number().default(1) }))
      .event('tagged', z.record(z.string(), z.string()))
      .event('opened', z.undefined())
      .event('closed', z.union([z.undefined(), z.object({ reason: z.string() })]))
      .event('anything', z.any())
      .build()
    const manager = KitTelemetry.create().withValidation({ mode: 'none' }).addEvents(shop).build()

    it('emit does not compile without the required attributes', () => {
      ;() => {
        // @ts-expect-error: no input
        manager.emit('shop.placed')
        // @ts-expect-error: no attributes
        manager.emit('shop.placed', {})
        // @ts-expect-error: no attributes
        manager.emit('shop.placed', { level: 'warn' })
        // @ts-expect-error: attributes that are undefined
        manager.emit('shop.placed', { attributes: undefined })
        // @ts-expect-error: attributes without a required member
        manager.emit('shop.placed', { attributes: {} })
        // @ts-expect-error: a function that returns no attributes
        manager.emit('shop.placed', { attributes: () => undefined })
        // @ts-expect-error: no input in a session
        manager.session().emit('shop.placed')
        // @ts-expect-error: no attributes in a session
        manager.session().emit('shop.placed', { level: 'warn' })
      }
      manager.emit('shop.placed', { attributes: { cents: 1 } })
      manager.emit('shop.placed', { level: 'warn', attributes: () => ({ cents: 1, note: 'x' }) })
      manager.session().emit('shop.placed', { attributes: { cents: 1 } })
    })

    it('emit compiles without attributes for schemas that accept none, and for events of this package', () => {
      manager.emit('shop.viewed')
      manager.emit('shop.viewed', {})
      manager.emit('shop.viewed', { level: 'warn', attributes: undefined })
      manager.emit('shop.viewed', { attributes: () => undefined })
      manager.emit('shop.counted')
      manager.emit('shop.tagged')
      manager.emit('shop.opened')
      manager.emit('shop.closed')
      manager.emit('shop.anything')
      manager.emit('kit.mcp.tool.failed')
      manager.session().emit('shop.viewed', { level: 'warn' })
      const key: 'shop.viewed' | 'shop.counted' = shop.get.key('viewed')
      manager.emit(key)
      free.emit('any.name')
      free.emit('any.name', { level: 'warn' })
    })
  })

  it('actor and scope types are limited to the registered ones', () => {
    typed.session().actor('user', 'u1', { plan: 'pro' }).scope('org', 'o1')
    ;() => {
      // @ts-expect-error: not registered
      typed.session().actor('stranger')
      // @ts-expect-error: not registered
      typed.session().scope('nothing', 'x')
      // @ts-expect-error: not registered
      typed.emit('billing.opened', { attributes: { plan: 'pro' }, actor: { type: 'stranger' } })
      // @ts-expect-error: a scope has an id
      typed.session().scope('org')
    }
  })

  it('any string is accepted as a type if none is registered', () => {
    interface Order {
      readonly id: string
    }
    const order: Order = { id: 'x' }
    free.session().actor('anybody').scope('anything', 'x').emit('any.name', { attributes: order })
    free.emit('any.name', { attributes: { a: 1 }, sessionId: undefined })
  })

  it('a manager with any type arguments can be passed as a KitTelemetryManager', () => {
    withTelemetry(free)
    ;() => withTelemetry(typed)
    ;() => takesExplicitAny(typed)
    expectTypeOf(typed).toExtend<KitTelemetryManager>()
    expectTypeOf(typed.version).toEqualTypeOf<string | undefined>()
    expectTypeOf(typed.flush()).toEqualTypeOf<Promise<void>>()
  })

  it('run resolves to the type that its function returns', () => {
    const session = free.session()
    expectTypeOf(session.run(() => 5)).toEqualTypeOf<Promise<number>>()
    expectTypeOf(session.run(async () => 'x')).toEqualTypeOf<Promise<string>>()
  })

  it('usual loggers are accepted, and transports with or without promises', () => {
    KitTelemetry.create()
      .withLogger(console)
      .withLogger(pino({ enabled: false }))
      .addTransport({ type: 'a', handle: (_envelope: TelemetryEnvelope) => {} })
      .addTransport({ type: 'b', handle: async () => {} })
      .addTransport(LoggerTransportAdapter.create({ logger: pino({ enabled: false }) }))
      .addTransport(LoggerTransportAdapter.create({ logger: console }))
  })
})
