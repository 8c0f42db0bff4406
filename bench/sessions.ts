import { once } from 'node:events'
import { Agent, createServer, type IncomingMessage, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'
import type autocannon from 'autocannon'
import express from 'express'
import { mcpAuth } from '../src/express/mcp-auth.ts'
import { mcpHandler } from '../src/express/mcp-handler.ts'
import type { McpAdapterOptions } from '../src/mcp/options.ts'
import type { Contestant } from './contestants.ts'
import { measureLoad } from './load.ts'
import { printRatios, recordRatio } from './report.ts'
import { COUNT_TIMERS, type HostMemory, type StartedHost, startHost } from './started-host.ts'
import { adapter, add, CALL_LEGACY } from './tools-call.ts'

const STATELESS = 'mcp-gatekit, stateless'
const IN_SESSION = 'mcp-gatekit, in a session'
const BARE = 'bare Express'

/** Enough places for every session and stream of one user. */
const MANY = { max: 20_000, maxPerOwner: 20_000 }

/** The compared servers. All requests have the same token. */
export const contestants: Record<string, Contestant> = {
  [STATELESS]: () => gatekit({ streams: MANY }),
  [IN_SESSION]: () => gatekit({ sessions: MANY, streams: MANY }),
  // The cost of the connection itself: it responds to GET with an event stream that stays open.
  [BARE]: () =>
    createServer(
      express().use('/mcp', (_req, res) => {
        res.writeHead(200, { 'Content-Type': 'text/event-stream' })
        res.write(': open\n\n')
      }),
    ),
}

function gatekit(options: McpAdapterOptions) {
  const mcp = adapter(10, add, options)
  return createServer(express().use('/mcp', mcpAuth(mcp), mcpHandler(mcp)))
}

const CONNECTIONS = 50
const SESSIONS = 10_000
const STREAMS = 1_000
/** The sessions or streams that are opened before the first figure, so that code and caches are not counted. */
const WARM_UP = 200
const AT_ONCE = 50
const MIB = 1024 * 1024

/** (j) Measures a call within a session, and what idle sessions and idle event streams hold. */
export async function benchSessions(): Promise<void> {
  await benchCalls()
  const idle = [
    await measureIdle(
      `${SESSIONS.toLocaleString('en')} idle sessions`,
      IN_SESSION,
      115,
      openSessions(SESSIONS),
    ),
    await measureIdle(`${STREAMS.toLocaleString('en')} idle event streams`, STATELESS, 20, () =>
      openStreams(),
    ),
    await measureIdle(
      `${STREAMS.toLocaleString('en')} idle event streams of as many sessions`,
      IN_SESSION,
      25,
      openSessionStreams,
    ),
    await measureIdle(`${STREAMS.toLocaleString('en')} idle event streams, bare Express`, BARE, 20, () =>
      openStreams(),
    ),
  ]
  console.log(`\n### ${IDLE}\n`)
  console.log(
    '| state | heap MiB | rss MiB | heap bytes each | goal, heap MiB | active timers | all timers |',
  )
  console.log('|---|---|---|---|---|---|---|')
  for (const { what, count, goal, before, after, timers } of idle) {
    const heap = after.heapUsed - before.heapUsed
    if (!what.includes(BARE)) recordRatio(IDLE, what, (goal * MIB) / heap)
    const figures = [
      (heap / MIB).toFixed(1),
      ((after.rss - before.rss) / MIB).toFixed(1),
      Math.round(heap / count).toLocaleString('en'),
      goal,
      after.activeTimers,
      timers,
    ]
    console.log(`| ${[what, ...figures].join(' | ')} |`)
  }
}

const IDLE = '(j) what idle sessions and event streams hold'

/** Each connection has a session of its own. */
async function benchCalls(): Promise<void> {
  const figures = await measureLoad({
    module: new URL(import.meta.url),
    path: '/mcp',
    names: [STATELESS, IN_SESSION],
    request: CALL_LEGACY,
    connections: CONNECTIONS,
    expectStatus: 200,
    setup: async (name, port) => {
      if (name !== IN_SESSION) return {}
      const ids = await openMany(CONNECTIONS, (agent) => openSession(port, agent))
      let next = 0
      return {
        setupClient(client: autocannon.Client) {
          const session = ids[next++ % ids.length]
          client.setHeaders({ ...CALL_LEGACY.headers, 'mcp-session-id': session })
        },
      }
    },
  })
  printRatios('(j) tools/call, revision 2025-11-25', figures.rounds, STATELESS, 'requests/s', figures.cpu)
}

interface Idle {
  readonly what: string
  readonly count: number
  /** The largest growth of the heap that is good enough, in MiB. */
  readonly goal: number
  readonly before: HostMemory
  readonly after: HostMemory
  /** All timers in the state, counted in a process of their own. */
  readonly timers: number
}

/** Brings a server into a state in two steps, a warm-up and the measured one. Each step resolves with the open connections. */
interface Opener {
  readonly count: number
  warmUp(port: number): Promise<number>
  open(port: number): Promise<number>
  close(): void
}

async function measureIdle(
  what: string,
  name: string,
  goal: number,
  makeOpener: () => Opener,
): Promise<Idle> {
  const { count } = makeOpener()
  const flags = { execArgv: ['--expose-gc'] }
  const [before, after] = await measureOnce(
    await startHost(new URL(import.meta.url), name, flags),
    makeOpener(),
  )
  const counting = { ...flags, mode: COUNT_TIMERS }
  const [none, some] = await measureOnce(
    await startHost(new URL(import.meta.url), name, counting),
    makeOpener(),
  )
  return { what, count, goal, before, after, timers: (some.timers ?? 0) - (none.timers ?? 0) }
}

async function measureOnce(host: StartedHost, opener: Opener): Promise<[HostMemory, HostMemory]> {
  try {
    const before = await memoryWith(host, await opener.warmUp(host.port))
    return [before, await memoryWith(host, await opener.open(host.port))]
  } finally {
    opener.close()
    host.stop()
  }
}

/** Returns the memory as soon as the server has as many connections as expected. */
async function memoryWith(host: StartedHost, connections: number): Promise<HostMemory> {
  for (let tries = 0; tries < 50; tries++) {
    const memory = await host.ask('memory')
    if (memory.connections === connections) return memory
    await setTimeout(100)
  }
  throw new Error(`The server does not have ${connections} connections.`)
}

/** Opens sessions whose connections are closed again. */
function openSessions(count: number): () => Opener {
  const open = async (port: number, many: number): Promise<number> => {
    await openMany(many, (agent) => openSession(port, agent))
    return 0
  }
  return () => ({
    count,
    warmUp: (port) => open(port, WARM_UP),
    open: (port) => open(port, count),
    close: () => undefined,
  })
}

/** Opens event streams that stay open. The warm-up leaves its streams open, too. */
function openStreams(sessionsFor?: (port: number, count: number) => Promise<readonly string[]>): Opener {
  const open: IncomingMessage[] = []
  let sessions: readonly string[] = []
  const openUpTo = async (port: number, count: number): Promise<number> => {
    while (open.length < count) {
      const size = Math.min(AT_ONCE, count - open.length)
      const many = Array.from({ length: size }, (_, index) => openStream(port, sessions[open.length + index]))
      open.push(...(await Promise.all(many)))
    }
    return open.length
  }
  return {
    count: STREAMS,
    async warmUp(port) {
      sessions = (await sessionsFor?.(port, WARM_UP + STREAMS)) ?? []
      return await openUpTo(port, WARM_UP)
    },
    open: (port) => openUpTo(port, WARM_UP + STREAMS),
    close: () => {
      for (const response of open) response.destroy()
    },
  }
}

/** Opens event streams, each in a session of its own. The sessions are opened before the first figure. */
const openSessionStreams = (): Opener =>
  openStreams((port, count) => openMany(count, (agent) => openSession(port, agent)))

async function openMany<Result>(count: number, open: (agent: Agent) => Promise<Result>): Promise<Result[]> {
  const agent = new Agent({ keepAlive: true, maxSockets: AT_ONCE })
  try {
    return await Promise.all(Array.from({ length: count }, () => open(agent)))
  } finally {
    agent.destroy()
  }
}

/** Opens a session as a client does, and resolves with its id. */
async function openSession(port: number, agent: Agent): Promise<string> {
  const params = {
    protocolVersion: '2025-11-25',
    capabilities: {},
    clientInfo: { name: 'bench', version: '1.0.0' },
  }
  const first = await post(port, agent, { jsonrpc: '2.0', id: 0, method: 'initialize', params })
  const session = `${first.headers['mcp-session-id']}`
  if (first.statusCode !== 200) throw new Error(`initialize: ${first.statusCode}`)
  const ready = { jsonrpc: '2.0', method: 'notifications/initialized' }
  const second = await post(port, agent, ready, { 'mcp-session-id': session })
  if (second.statusCode !== 202) throw new Error(`notifications/initialized: ${second.statusCode}`)
  return session
}

async function post(port: number, agent: Agent, message: object, headers = {}): Promise<IncomingMessage> {
  const sent = request({
    port,
    agent,
    path: '/mcp',
    method: 'POST',
    headers: { ...CALL_LEGACY.headers, ...headers },
  })
  sent.end(JSON.stringify(message))
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  response.resume()
  await once(response, 'end')
  return response
}

async function openStream(port: number, session: string | undefined): Promise<IncomingMessage> {
  const headers = {
    authorization: CALL_LEGACY.headers.authorization,
    accept: 'text/event-stream',
    'mcp-protocol-version': '2025-11-25',
    ...(session !== undefined && { 'mcp-session-id': session }),
  }
  const sent = request({ port, path: '/mcp', agent: false, headers })
  sent.end()
  const [response] = (await once(sent, 'response')) as [IncomingMessage]
  if (response.statusCode !== 200) throw new Error(`GET: ${response.statusCode}`)
  response.on('error', () => undefined)
  response.resume()
  return response
}
