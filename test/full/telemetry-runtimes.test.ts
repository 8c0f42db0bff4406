import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { startCollector, type Target } from '../support/chat-services.ts'
import { installRuntimes, type Runtimes } from '../support/runtimes.ts'

const run = promisify(execFile)

/** Emits events to the collector at `url`, and returns what the runtime made of them. */
const REPORT = `
import { HttpTransportAdapter, InMemoryTransportAdapter, KitTelemetry, TeamChatTransportAdapter } from 'mcp-gatekit/telemetry'

export async function report(url) {
  let hashes = true
  let builder = KitTelemetry.create().withSampling({ infoRate: 1 }).withLogger(console)
  try {
    builder = builder.withRedaction({ hashKeys: ['email'], hashSecret: 's'.repeat(32) })
  } catch {
    hashes = false
  }
  const memory = InMemoryTransportAdapter.create()
  const telemetry = builder
    .addTransport(memory)
    .addTransport(HttpTransportAdapter.create({ url: url + '/events', batch: { maxSize: 10, maxDelayMs: 5 } }))
    .addTransport(TeamChatTransportAdapter.create({ webhookUrl: url + '/chat', minLevel: 'error' }))
    .build()
  const session = telemetry.session()
  session.actor('user', 'u1')
  await session.run(async () => {
    await Promise.resolve()
    telemetry.emit('a.first', { attributes: { date: new Date(0) } })
  })
  telemetry.emit('a.failed', { level: 'error', error: new Error('x') })
  await telemetry.shutdown()
  const [first] = memory.getEvents()
  const counts = telemetry.stats().transports.map(({ type, delivered, pending }) => [type, delivered, pending])
  return { hashes, context: first.actor?.id === 'u1', date: first.attributes.date, counts }
}`

const PROGRAM = `
import { report } from './report.js'
console.log(JSON.stringify(await report(process.argv[2])))`

const CLOUDFLARE = `
import { report } from './report.js'
export default { fetch: async (request) => Response.json(await report(new URL(request.url).searchParams.get('to'))) }`

const EXPECTED = {
  date: '1970-01-01T00:00:00.000Z',
  counts: [
    ['in-memory', 2, 0],
    ['http', 2, 0],
    ['team-chat', 2, 0],
  ],
}

describe('telemetry on other runtimes', function () {
  this.timeout(600_000)

  let runtimes: Runtimes
  let folder: string
  let collector: Target

  before(async () => {
    runtimes = await installRuntimes()
    folder = await runtimes.makeFolder('telemetry', {
      'report.js': REPORT,
      'program.js': PROGRAM,
      'cloudflare.js': CLOUDFLARE,
    })
  })

  beforeEach(async () => {
    collector = await startCollector()
  })

  for (const [runtime, flags] of [
    ['bun', []],
    ['deno', ['run', '--allow-env', '--allow-net', '--allow-read', '--allow-sys']],
  ] as const) {
    it(`${runtime} delivers events, keeps the context of a session, and hashes`, async function () {
      runtimes.skipIfMissing(this, runtime)
      const args = [...flags, 'program.js', collector.origin]
      const { stdout } = await run(runtimes.binary(runtime), args, { cwd: folder })
      expect(JSON.parse(stdout)).to.deep.equal({ ...EXPECTED, hashes: true, context: true })
      expect(collector.requests.map(({ path }) => path)).to.have.members(['/events', '/chat'])
    })
  }
})
