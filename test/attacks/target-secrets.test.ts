import { execFile } from 'node:child_process'
import { once } from 'node:events'
import type { IncomingHttpHeaders } from 'node:http'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect } from 'chai'
import { listen } from '../support/listen.ts'

const PROGRAM = fileURLToPath(new URL('./target-secrets.program.js', import.meta.url))

/** The paths of the transports' requests. */
const PATHS = [
  '/http/S3cr3t?key=S3cr3t',
  '/slack/S3cr3t',
  '/discord/S3cr3t?wait=true',
  '/bot1:S3cr3t/sendMessage',
]

interface Observed {
  /** The records of the observer as one string. */
  readonly seen: readonly string[]
  /** The requests of the transports by path. */
  readonly requests: ReadonlyMap<string, IncomingHttpHeaders>
  /** The requests of the application itself. */
  readonly control: IncomingHttpHeaders | undefined
}

/** Sends an event with every transport in a process that `observer` watches. */
async function observed(observer: string, connection = 'own'): Promise<Observed> {
  const all = new Map<string, IncomingHttpHeaders>()
  const { origin } = await listen(async (request, response) => {
    all.set(request.url ?? '', request.headers)
    request.resume()
    await once(request, 'end')
    // The program blocks for longer than the connection of this request would be kept.
    if (request.url === '/first') response.setHeader('connection', 'close')
    response.setHeader('content-type', 'application/json').end('{"ok":true}')
  })
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [PROGRAM, observer, origin, connection, 'S3cr3t'],
    {
      env: { ...process.env, NODE_V8_COVERAGE: undefined },
      maxBuffer: 2 ** 26,
    },
  )
  const { seen } = JSON.parse(stdout)
  const paths = connection === 'otlp' ? [...PATHS, '/otlp/S3cr3t'] : PATHS
  const requests = new Map([...all].filter(([path]) => paths.includes(path)))
  expect([...requests.keys()]).to.have.members(paths)
  return { seen, requests, control: all.get('/control') }
}

const traceHeadersOf = (headers: IncomingHttpHeaders = {}): string[] =>
  Object.keys(headers).filter((name) => /trace|baggage|b3/.test(name))

function expectUnseen({ seen, requests }: Observed): void {
  for (const text of seen) expect(text).not.to.include('S3cr3t')
  for (const [path, headers] of requests) expect(traceHeadersOf(headers), path).to.deep.equal([])
}

const OWN = 'neither a URL nor a token is seen, and no trace header is sent'

for (const connection of ['own', 'dispatcher', 'otlp']) {
  it(`secrets of targets: @sentry/node with its default integrations watches (connection: ${connection}): ${OWN}`, async function () {
    this.timeout(60_000)
    const all = await observed('sentry', connection)
    expect(all.seen.join('\n')).to.include('/control')
    expect(traceHeadersOf(all.control)).to.include('sentry-trace')
    expectUnseen(all)
  })

  it(`secrets of targets: OpenTelemetry instrumentations of http and undici watch (connection: ${connection}): ${OWN}`, async () => {
    const all = await observed('opentelemetry', connection)
    expect(all.seen.join('\n')).to.include('/control')
    expect(traceHeadersOf(all.control)).to.include('traceparent')
    expectUnseen(all)
  })
}

it(`secrets of targets: Sentry without OpenTelemetry watches: ${OWN}`, async () => {
  for (const connection of ['own', 'dispatcher', 'otlp']) {
    const all = await observed('sentry-light', connection)
    expect(all.seen.join('\n')).to.include('/control')
    expectUnseen(all)
  }
})
