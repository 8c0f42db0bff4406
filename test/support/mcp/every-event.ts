import { type KitTelemetryManager, memoryEventStore } from '../../../src/index.ts'
import { until } from '../until.ts'
import { accept, type ReceiverResponse, SECRET, serveWebhooks, startReceiver } from './webhooks.ts'

/** Makes an adapter emit every telemetry event about events: a webhook accepts, fails, and gives up, and its user loses everything. */
export async function emitEveryEvent(telemetry: KitTelemetryManager<any, any, any>): Promise<void> {
  const receiver = await startReceiver()
  let isPermitted = true
  const { adapter, subscribe, ask } = await serveWebhooks(receiver.network, {
    telemetry,
    events: { store: memoryEventStore({ maxBytesPerOwner: 8_000 }) },
    authorize: () => isPermitted,
  })
  const { events } = adapter
  receiver.respond = () => ({ status: 404 })
  await subscribe('ada', receiver.url)
  receiver.respond = accept
  for (let times = 0; times < 2; times++) await subscribe('ada', receiver.url)
  const emit = (response: ReceiverResponse, data: object = { id: 1 }): Promise<unknown> => {
    receiver.respond = (message) => (message.json.type === 'verification' ? accept(message) : response)
    return events.emit('incident', data)
  }
  await emit({ status: 204 })
  await until(() => events.stats().delivered.webhook === 1)
  await emit({ status: 413 })
  await until(() => events.stats().abandoned === 1)
  await emit({ status: 500 })
  await until(() => events.stats().failed === 1)
  await emit({ status: 204 }, { id: 1, more: 'x'.repeat(8_000) })
  const delivery = { mode: 'webhook', url: receiver.url, secret: SECRET }
  await ask('ada', 'events/unsubscribe', { name: 'incident', arguments: {}, delivery })
  await subscribe('ada', receiver.url)
  isPermitted = false
  await emit({ status: 204 })
  await until(() => events.stats().terminated === 1)
  await events.close({ timeoutMs: 1_000 })
}
