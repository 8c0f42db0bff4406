/**
 * Emits events into a transport whose target hangs, shuts down with a deadline, and prints when that is over. From then
 * on, nothing may keep this process alive. Arguments: the target, and its origin.
 */
import { createRequire } from 'node:module'
import * as kit from '../../../src/telemetry/index.ts'

const [name = '', origin = ''] = process.argv.slice(2)
const { port } = new URL(origin)

/** Closes the resources of the application after the shutdown. */
let closeOwn = () => {}

/** The dispatcher of Node's own `fetch`. */
async function ownDispatcher(): Promise<kit.HttpTransportOptions['dispatcher']> {
  await fetch('data:text/plain,x').catch(() => {})
  await fetch('http://127.0.0.1:9').catch(() => {})
  return (globalThis as any)[Symbol.for('undici.globalDispatcher.1')]
}

function sentry(): kit.ErrorTrackerSdk {
  const Sentry: typeof import('@sentry/node') = createRequire(import.meta.url)('@sentry/node')
  Sentry.init({ dsn: `http://public@127.0.0.1:${port}/1`, defaultIntegrations: false })
  return Sentry
}

const TRANSPORTS: Readonly<Record<string, () => kit.TelemetryTransport | Promise<kit.TelemetryTransport>>> = {
  http: () => kit.HttpTransportAdapter.create({ url: origin, retries: 3, timeout: 60_000 }),
  https: () =>
    kit.HttpTransportAdapter.create({ url: origin.replace('http:', 'https:'), retries: 3, timeout: 60_000 }),
  dispatcher: async () =>
    kit.HttpTransportAdapter.create({ url: origin, timeout: 60_000, dispatcher: await ownDispatcher() }),
  Slack: () => kit.TeamChatTransportAdapter.create({ webhookUrl: origin }),
  Discord: () => kit.CommunityChatTransportAdapter.create({ webhookUrl: origin }),
  Telegram: () => kit.MessengerTransportAdapter.create({ botToken: '1:x', chatId: '1', apiRoot: origin }),
  'dev console': () => kit.DevConsoleTransportAdapter.create({ url: origin }),
  'error tracker': () => kit.ErrorTrackerTransportAdapter.create({ sdk: sentry() }),
  ioredis: async () => {
    const { Redis } = await import('ioredis')
    const store = new Redis({ port: Number(port), host: '127.0.0.1', disconnectTimeout: 100 })
    store.on('error', () => {})
    closeOwn = () => store.disconnect()
    return kit.StoreStreamTransportAdapter.create({ store })
  },
  'node-redis': async () => {
    const { createClient } = await import('redis')
    const store = createClient({ socket: { port: Number(port), host: '127.0.0.1' } })
    store.on('error', () => {})
    store.connect().catch(() => {})
    closeOwn = () => store.destroy()
    return kit.StoreStreamTransportAdapter.create({ store })
  },
}

const transport = await TRANSPORTS[name]?.()
if (transport === undefined) throw new Error(`There is not a transport ${name}`)
const manager = kit.KitTelemetry.create()
  .withLogger({ warn() {}, error() {} })
  .addTransport(transport)
  .build()
for (let index = 0; index < 3; index++)
  manager.emit('order.failed', { level: 'fatal', error: new Error('x') })
await manager.shutdown({ timeoutMs: 400 })
closeOwn()
process.stdout.write('over\n')
