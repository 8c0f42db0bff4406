import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { Agent, type AgentOptions, type ClientRequest, request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import { fileURLToPath } from 'node:url'
import { expect } from 'chai'
import { bearer, call, definedOf, legacy, modern, rpc, type WireRequest } from '../support/mcp/wire.ts'
import type { Weight } from './soak-program.ts'

/** The duration of the load in seconds. `MCP_SOAK_SECONDS` changes it. */
const SECONDS = Number(process.env.MCP_SOAK_SECONDS ?? 600)
const WORKERS = 6
/** The pause of a worker between two requests. It keeps the load steady and leaves time for other suites. */
const PAUSE_MS = 10
const SAMPLES = 60
/** The part of the run in which caches fill, V8 optimizes, and the allocator reaches its size. */
const WARM_UP = 0.3

/**
 * The largest rise of the least-squares line through the samples after the warm-up, in bytes. Ten minutes at 170 requests
 * per second have 70 000 requests after the warm-up, so a leak of 60 bytes per request exceeds it.
 */
const HEAP_BOUND = 4 * 1024 * 1024
/** The limit of resident memory is higher, because the allocator frees memory late or never. */
const RESIDENT_BOUND = 48 * 1024 * 1024

const PROGRAM = fileURLToPath(new URL('./soak-program.js', import.meta.url))

/** A request of a client, which disconnects before the response or during it, or reads the whole response. */
interface Act {
  readonly request: WireRequest
  readonly statuses: readonly number[]
  readonly until?: 'begun' | 'sent'
}

const good = (n: number) => bearer(`good${n % 1000}`)
const streaming = { name: 'stream', _meta: { progressToken: 1, 'io.modelcontextprotocol/logLevel': 'info' } }

const ACTS: readonly ((n: number) => Act)[] = [
  (n) => ({
    request: modern('tools/call', { name: 'echo', arguments: { text: `${n}` } }, good(n)),
    statuses: [200],
  }),
  (n) => ({ request: legacy(call('echo', { text: 'x'.repeat(n % 5000) }), good(n)), statuses: [200] }),
  (n) => ({ request: modern('tools/call', { name: 'sum', arguments: { a: n } }, good(n)), statuses: [200] }),
  (n) => ({ request: legacy(call('break'), good(n)), statuses: [200] }),
  (n) => ({ request: modern('tools/call', { name: 'nonsense' }, good(n)), statuses: [200] }),
  (n) => ({ request: legacy(call('refuse'), good(n)), statuses: [200] }),
  (n) => ({ request: modern('tools/list', {}, good(n)), statuses: [200] }),
  (n) => ({ request: legacy(rpc('resources/list'), good(n)), statuses: [200] }),
  (n) => ({
    request: modern('resources/read', { uri: `y://${n}` }, { ...good(n), 'mcp-name': `y://${n}` }),
    statuses: [200],
  }),
  (n) => ({
    request: legacy(rpc('prompts/get', { name: 'hello', arguments: { who: 'x' } }), good(n)),
    statuses: [200],
  }),
  (n) => ({
    request: legacy([call('echo', { text: 'a' }, 1), call('sum', { a: n }, 2)], {
      ...good(n),
      'mcp-protocol-version': undefined,
    }),
    statuses: [200],
  }),
  (n) => ({
    request: legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }, good(n)),
    statuses: [202],
  }),
  (n) => ({ request: modern('tools/call', { name: 'write' }, good(n)), statuses: [403] }),
  (n) => ({ request: legacy(rpc('tools/list'), bearer(`bad${n}`)), statuses: [401] }),
  () => ({ request: legacy(rpc('tools/list')), statuses: [401] }),
  (n) => ({ request: legacy('{', good(n)), statuses: [400] }),
  (n) => ({ request: modern('no/method', {}, good(n)), statuses: [404] }),
  (n) => ({ request: modern('tools/call', streaming, good(n)), statuses: [200] }),
  (n) => ({ request: legacy(rpc('tools/call', streaming), good(n)), statuses: [200] }),
  (n) => ({ request: legacy(rpc('tools/call', streaming), good(n)), statuses: [200], until: 'begun' }),
  (n) => ({ request: modern('tools/call', { name: 'wait' }, good(n)), statuses: [], until: 'sent' }),
  (n) => ({ request: legacy(call('wait'), good(n)), statuses: [], until: 'sent' }),
  (n) => ({
    request: { method: 'GET', headers: { ...good(n), accept: 'text/event-stream' } },
    statuses: [200],
    until: 'begun',
  }),
  (n) => ({
    request: modern('subscriptions/listen', { notifications: { toolsListChanged: true } }, good(n)),
    statuses: [200],
    until: 'begun',
  }),
]

/** How long Node's server keeps an unused connection. */
const SERVER_KEEP_ALIVE_MS = 5_000

/** An agent that knows for how long each of its connections was unused. */
class IdleAgent extends Agent {
  readonly #freeSince = new WeakMap<Socket, number>()

  constructor(options: AgentOptions) {
    super(options)
    this.on('free', (socket) => this.#freeSince.set(socket, performance.now()))
  }

  /** Returns 0 for a new connection. */
  unusedMs(socket: Socket): number {
    return performance.now() - (this.#freeSince.get(socket) ?? performance.now())
  }
}

interface Program {
  readonly child: ChildProcess
  readonly port: number
  weigh(): Promise<Weight>
}

async function start(): Promise<Program> {
  const child = fork(PROGRAM, { execArgv: ['--expose-gc'] })
  const died = once(child, 'exit').then(([code]) => {
    throw new Error(`the program ended with ${code}`)
  })
  died.catch(() => undefined)
  const said = async <Message>(): Promise<Message> => (await Promise.race([once(child, 'message'), died]))[0]
  const { port } = await said<{ port: number }>()
  return {
    child,
    port,
    async weigh() {
      child.send('weigh')
      return await said<Weight>()
    },
  }
}

/**
 * Sends one request and waits for its end. Repeats it if the server closed a connection that was unused for the time after which it may do
 * so, just when the request was sent on it.
 */
async function act(port: number, agent: IdleAgent, one: Act): Promise<void> {
  const sent = { unusedMs: 0 }
  try {
    await perform(port, agent, one, sent)
  } catch (error) {
    if (sent.unusedMs > SERVER_KEEP_ALIVE_MS / 2) return await act(port, agent, one)
    const request = JSON.stringify(one).slice(0, 300)
    throw new Error(`${request} failed on a connection that was unused for ${sent.unusedMs} ms`, {
      cause: error,
    })
  }
}

async function perform(
  port: number,
  agent: IdleAgent,
  { request, statuses, until }: Act,
  sent: { unusedMs: number },
): Promise<void> {
  const { method = 'POST', headers = {}, body } = request
  const options = { host: '127.0.0.1', port, path: '/mcp', method, headers: definedOf(headers) }
  const outgoing: ClientRequest = httpRequest({ ...options, agent: until === undefined ? agent : false })
  outgoing.once('socket', (socket) => {
    sent.unusedMs = agent.unusedMs(socket)
  })
  const closed = new Promise<void>((resolve) => outgoing.once('close', () => resolve()))
  outgoing.on('error', () => undefined)
  if (until === 'sent') {
    await new Promise<void>((resolve) => outgoing.end(body, () => resolve()))
    await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
  } else {
    outgoing.end(body)
    const [response] = await once(outgoing, 'response')
    expect(response.statusCode).to.be.oneOf([...statuses])
    response.on('error', () => undefined)
    if (until === 'begun') await once(response, 'data')
    else await once(response.resume(), 'end')
  }
  if (until !== undefined) outgoing.destroy()
  await closed
}

/** Returns the rise of the least-squares line from the first sample to the last. */
function rise(samples: readonly { readonly at: number; readonly bytes: number }[]): number {
  const mean = (numbers: readonly number[]) => numbers.reduce((sum, one) => sum + one, 0) / numbers.length
  const [at, bytes] = [mean(samples.map((one) => one.at)), mean(samples.map((one) => one.bytes))]
  const covariance = samples.reduce((sum, one) => sum + (one.at - at) * (one.bytes - bytes), 0)
  const variance = samples.reduce((sum, one) => sum + (one.at - at) ** 2, 0)
  return (covariance / variance) * ((samples.at(-1)?.at ?? 0) - (samples[0]?.at ?? 0))
}

describe(`a server under mixed load for ${SECONDS} s`, function () {
  this.timeout((SECONDS + 240) * 1000)

  it('the server uses no more memory than after its warm-up, and has no open resources at the end', async () => {
    const { child, port, weigh } = await start()
    try {
      const before = await weigh()
      const agent = new IdleAgent({ keepAlive: true, maxSockets: WORKERS })
      const startedMs = Date.now()
      const endsAt = startedMs + SECONDS * 1000
      let done = 0
      const work = async (): Promise<void> => {
        while (Date.now() < endsAt) {
          const n = done++
          await act(port, agent, ACTS[n % ACTS.length]?.(n) as Act)
          await new Promise((resolve) => setTimeout(resolve, PAUSE_MS))
        }
      }
      const samples: (Weight & { readonly at: number })[] = []
      const watch = async (): Promise<void> => {
        for (let sample = 1; sample <= SAMPLES; sample++) {
          // On a busy machine, a sample takes a second. The next one must not begin later for it.
          const atMs = startedMs + (SECONDS * 1000 * sample) / SAMPLES
          await new Promise((resolve) => setTimeout(resolve, Math.max(atMs - Date.now(), 0)))
          samples.push({ ...(await weigh()), at: sample })
        }
      }
      await Promise.all([watch(), ...Array.from({ length: WORKERS }, work)])
      agent.destroy()

      const warm = samples.slice(Math.ceil(SAMPLES * WARM_UP))
      const heap = rise(warm.map(({ at, heapBytes }) => ({ at, bytes: heapBytes })))
      const resident = rise(warm.map(({ at, residentBytes }) => ({ at, bytes: residentBytes })))
      const seconds = SECONDS * (1 - WARM_UP)
      console.log(
        `      ${done} requests; heap ${mib(warm[0]?.heapBytes)} to ${mib(warm.at(-1)?.heapBytes)}, rising ${Math.round(heap / seconds)} B/s; ` +
          `resident ${mib(warm[0]?.residentBytes)} to ${mib(warm.at(-1)?.residentBytes)}, rising ${Math.round(resident / seconds)} B/s`,
      )
      expect(heap, 'heap').to.be.below(HEAP_BOUND)
      expect(resident, 'resident').to.be.below(RESIDENT_BOUND)

      let after = await weigh()
      while (after.connections > 0 || after.streams > 0 || after.calls > 0) after = await weigh()
      expect(after.resources).to.deep.equal(before.resources)
      const exited = once(child, 'exit')
      child.send('end')
      expect(await exited).to.deep.equal([0, null])
    } finally {
      child.kill('SIGKILL')
    }
  })
})

function mib(bytes = 0): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}
