import { once } from 'node:events'
import { Agent, request as httpRequest, type Server } from 'node:http'
import { connect, type Socket } from 'node:net'
import { text } from 'node:stream/consumers'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { InMemoryServerEventBus } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { z } from 'zod'
import { KitMcpRouter, mcpAuth, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { endpointOf } from '../../src/mcp/endpoint-of.ts'
import { listen } from './listen.ts'
import { keepingEvents } from './telemetry/recording.ts'

const MODERN = '2026-07-28'

/** Counts the calls of the handlers. Each call that begins must end: by itself, or by its signal. */
class Calls {
  begun = 0
  ended = 0
  aborted = 0
  #wake: (() => void) | undefined

  async wait(signal: AbortSignal): Promise<void> {
    this.begun++
    if (!signal.aborted) await once(signal, 'abort')
    this.aborted++
    this.end()
  }

  end(): void {
    this.ended++
    this.#wake?.()
  }

  /** Resolves when no call is running. */
  async idle(): Promise<void> {
    while (this.begun !== this.ended) {
      await new Promise<void>((resolve) => {
        this.#wake = resolve
      })
    }
  }
}

function routerOf(calls: Calls): KitMcpRouter {
  return KitMcpRouter.create()
    .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text: said }) => said)
    .tool('wait', { description: 'x' }, async (_args, { signal }) => {
      await calls.wait(signal)
      return 'too late'
    })
    .tool('stream', { description: 'x' }, async (_args, { signal, progress }) => {
      calls.begun++
      for (let n = 0; !signal.aborted; n++) {
        await progress(n, undefined, 'x'.repeat(1000))
        await new Promise(setImmediate)
      }
      calls.aborted++
      calls.end()
      throw new Error('too late')
    })
    .tool('short', { description: 'x' }, async (_args, { progress }) => {
      calls.begun++
      for (let n = 0; n < 5; n++) {
        await progress(n)
        await new Promise(setImmediate)
      }
      calls.end()
      return 'done'
    })
}

/** Returns a whole request as bytes. */
function requestBytes(modern: boolean, method: string, params: Record<string, unknown>): string {
  const meta = modern
    ? {
        'io.modelcontextprotocol/protocolVersion': MODERN,
        'io.modelcontextprotocol/clientCapabilities': {},
        'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
        progressToken: 1,
      }
    : { progressToken: 1 }
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: meta } })
  return [
    'POST /mcp HTTP/1.1',
    'Host: 127.0.0.1',
    'Authorization: Bearer good',
    'Content-Type: application/json',
    'Accept: application/json, text/event-stream',
    `MCP-Protocol-Version: ${modern ? MODERN : '2025-11-25'}`,
    ...(modern ? [`Mcp-Method: ${method}`] : []),
    ...(modern && params.name !== undefined ? [`Mcp-Name: ${String(params.name)}`] : []),
    `Content-Length: ${Buffer.byteLength(body)}`,
    '',
    body,
  ].join('\r\n')
}

const GET = [
  'GET /mcp HTTP/1.1',
  'Host: 127.0.0.1',
  'Authorization: Bearer good',
  'Accept: text/event-stream',
  '',
  '',
].join('\r\n')

/** The requests of clients that disconnect. Some of them never end by themselves. */
const ASKED: readonly string[] = [
  ...[true, false].flatMap((modern) => [
    requestBytes(modern, 'tools/call', { name: 'echo', arguments: { text: 'x'.repeat(20_000) } }),
    requestBytes(modern, 'tools/call', { name: 'wait' }),
    requestBytes(modern, 'tools/call', { name: 'stream' }),
    requestBytes(modern, 'tools/call', { name: 'short' }),
    requestBytes(modern, 'tools/list', {}),
  ]),
  requestBytes(true, 'subscriptions/listen', { notifications: { toolsListChanged: true } }),
  GET,
]

/** Returns a reproducible source of numbers in [0, 1). */
function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) >>> 0
    return state / 2 ** 32
  }
}

/**
 * Sends `bytes` up to a random position, waits for a random event, and disconnects in a random way.
 * Waits are counted in turns of the event loop, not in milliseconds.
 */
async function hangUp(port: number, bytes: string, next: () => number): Promise<void> {
  const socket = connect(port, '127.0.0.1')
  socket.on('error', () => undefined)
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  await once(socket, 'connect')
  const head = bytes.indexOf('\r\n\r\n') + 4
  const places = [0, 10, head, head + 1, (head + bytes.length) >> 1, bytes.length, bytes.length, bytes.length]
  socket.write(bytes.slice(0, places[Math.floor(next() * places.length)]))
  const until = next()
  if (until < 0.3) await turns(Math.floor(next() * 20))
  else if (until < 0.6) await Promise.race([once(socket, 'data').catch(() => undefined), turns(50)])
  else await pages(socket, Math.floor(next() * 4))
  const way = next()
  if (way < 0.5) socket.destroy()
  else if (way < 0.75) socket.resetAndDestroy()
  else socket.end()
  await Promise.race([closed, turns(20)])
  socket.destroy()
  await closed
}

async function turns(count: number): Promise<void> {
  for (let turn = 0; turn < count; turn++) await new Promise(setImmediate)
}

/** Reads up to `count` chunks of the response, if there is one. */
async function pages(socket: Socket, count: number): Promise<void> {
  for (let read = 0; read < count; read++)
    await Promise.race([once(socket, 'data').catch(() => undefined), turns(100)])
}

interface Setting {
  readonly name: string
  readonly direct: boolean
  readonly serve: (adapter: McpAdapter) => Promise<{ port: number; server: Server }>
}

const onNode = (adapter: McpAdapter) => listen(mcpHandler(adapter))
const onExpress = (adapter: McpAdapter) =>
  listen(
    express()
      .set('env', 'test')
      .use('/mcp', mcpAuth(adapter) as RequestHandler, mcpHandler(adapter) as RequestHandler),
  )
const asFunction = ({ server }: McpAdapter) => {
  const handle = toNodeHandler({ fetch: (request) => server(request) }, { onerror: () => undefined })
  return listen((req, res) => void handle(req as never, res as never))
}

const SETTINGS: readonly Setting[] = [
  { name: 'node:http, the short way', direct: true, serve: onNode },
  { name: 'node:http, the long way', direct: false, serve: onNode },
  { name: 'Express', direct: true, serve: onExpress },
  { name: 'the web-standard handler, the short way', direct: true, serve: asFunction },
  { name: 'the web-standard handler, the long way', direct: false, serve: asFunction },
]

/** `count` clients disconnect at random moments from every entry point. Nothing is left of them, and other clients are served. */
export async function disconnectAtRandom(count: number, seed: number): Promise<void> {
  const stray: unknown[] = []
  const onStray = (reason: unknown) => stray.push(reason)
  process.on('unhandledRejection', onStray)
  try {
    for (const setting of SETTINGS)
      await disconnect(setting, Math.ceil(count / SETTINGS.length), random(seed))
    await turns(10)
    expect(stray, `seed ${seed}`).to.deep.equal([])
  } finally {
    process.off('unhandledRejection', onStray)
  }
}

async function disconnect(
  { name, direct, serve }: Setting,
  count: number,
  next: () => number,
): Promise<void> {
  const calls = new Calls()
  const { telemetry, transport } = keepingEvents()
  const eventBus = new InMemoryServerEventBus()
  const adapter = createMcpAdapter({
    router: routerOf(calls),
    eventBus,
    telemetry,
    oauth: {
      issuer: 'https://auth.example.com',
      verifyToken: async ({ bearerToken }) => {
        await turns(Math.floor(next() * 3))
        return { valid: bearerToken === 'good', user: { id: 'u' } }
      },
    },
  })
  const service = endpointOf(adapter)
  if (service !== undefined) service.sdkHandler.usesFastPath = direct
  const { port, server } = await serve(adapter)
  for (let done = 0; done < count; done += 10) {
    const clients = Array.from({ length: 10 }, (_, index) => ASKED[(done + index) % ASKED.length] ?? GET)
    await Promise.all([...clients.map((bytes) => hangUp(port, bytes, next)), stillServes(port, done)])
  }
  await calls.idle()
  await turns(20)
  await stillServes(port, count)
  expect(calls.aborted, `${name}: aborted calls`).to.be.greaterThan(0)
  while ((await connectionsOf(server)) > 0) await turns(1)
  expect(eventBus.listenerCount, `${name}: streams left`).to.equal(0)
  await telemetry.flush()
  // Telemetry has an end for every session that was accepted.
  const accepted = transport.getEvents().filter((event) => event.name === 'kit.mcp.auth.accepted')
  const completed = new Set(
    transport
      .getEvents()
      .flatMap((event) => (event.name === 'kit.mcp.request.completed' ? [event.sessionId] : [])),
  )
  const open = accepted.filter(({ sessionId }) => !completed.has(sessionId))
  expect(
    open.map(({ attributes }) => attributes),
    `${name}: requests without an end`,
  ).to.deep.equal([])
}

async function stillServes(port: number, n: number): Promise<void> {
  const said = `still ${n}`
  const body = JSON.stringify({
    jsonrpc: '2.0',
    id: n,
    method: 'tools/call',
    params: { name: 'echo', arguments: { text: said } },
  })
  const outgoing = httpRequest({
    port,
    host: '127.0.0.1',
    path: '/mcp',
    method: 'POST',
    agent: new Agent(),
    headers: {
      authorization: 'Bearer good',
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
    },
  })
  outgoing.end(body)
  const [response] = await once(outgoing, 'response')
  expect(await text(response)).to.contain(said)
}

const connectionsOf = (server: Server): Promise<number> =>
  new Promise((resolve, reject) => {
    server.getConnections((error, count) => (error === null ? resolve(count) : reject(error)))
  })
