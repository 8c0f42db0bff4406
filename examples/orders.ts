import {
  COMMON_SECRET_KEYS,
  KitTelemetry,
  KitTelemetryEvents,
  LoggerTransportAdapter,
} from 'mcp-gatekit/telemetry'
import { z } from 'zod'

// The events of the shop. Other events, or attributes of other types, do not compile.
const events = KitTelemetryEvents.namespace('shop')
  .group('order', (order) =>
    order
      .event('placed', z.object({ order: z.string(), cents: z.number(), email: z.string() }))
      .event('failed', z.object({ order: z.string() })),
  )
  .build()

const telemetry = KitTelemetry.create()
  .withService('shop')
  .withEnvironment('production')
  .addActor('user')
  .addScope('tenant')
  .addEvents(events)
  .withSampling({ infoRate: 1 })
  .withRedaction({ hashKeys: ['email'], denylistKeys: [...COMMON_SECRET_KEYS, 'card'] })
  .withLogger(console)
  .addTransport(LoggerTransportAdapter.create({ logger: console, includeTimestamp: false }))
  .build()

/** Needs no user, tenant, or request: its events belong to the session that runs it. */
async function placeOrder(order: string, cents: number): Promise<void> {
  telemetry.emit('shop.order.placed', { attributes: { order, cents, email: 'ada@example.com' } })
  if (cents < 0) throw new RangeError('an order must cost something')
}

for (const cents of [1200, -5]) {
  const order = `o${cents}`
  const session = telemetry.session().actor('user', 'u1').scope('tenant', 't1').attributes({ channel: 'web' })
  try {
    await session.run(() => placeOrder(order, cents))
  } catch (error) {
    session.emit('shop.order.failed', { level: 'error', error: error as Error, attributes: { order } })
  } finally {
    await session.end()
  }
}

await telemetry.shutdown()
const [{ delivered, failed, dropped, pending } = {}] = telemetry.stats().transports
console.log({ delivered, failed, dropped, pending })
