import express from 'express'
import { mcpAuth, mcpCors, mcpHandler, type NodeMiddleware } from '../../../src/index.ts'
import {
  type CreateMcpAdapterOptions,
  createMcpAdapter,
  type FetchHandler,
  KitMcpServer,
  type McpAdapter,
} from '../../../src/mcp/adapter.ts'
import type { McpAdapterOptions } from '../../../src/mcp/options.ts'
import { definedOf, type Listening, listen, readAnswer, type WireAnswer, type WireRequest } from './wire.ts'

/** The options of a served adapter. */
export type Setup = CreateMcpAdapterOptions

/** An entry point that serves an adapter. */
export interface Served {
  readonly origin: string
  send(request: WireRequest): Promise<WireAnswer>
  close(): Promise<void>
}

export interface EntryPoint {
  readonly name: string
  /** `true` if an Express body parser reads the body in front. */
  readonly parsed: boolean
  /** `true` if `mcpAuth` is in front. */
  readonly auth: boolean
  /** `true` if requests use a socket. */
  readonly wire: boolean
  serve(setup: Setup): Promise<Served>
}

/** Builds what `createMcpAdapter(setup)` would, through the builder. */
export function build(setup: Setup): McpAdapter {
  const { router, oauth, serverInfo, instructions, telemetry, ...options } = setup
  let builder = KitMcpServer.create().router(router)
  if (oauth !== undefined) builder = builder.withOAuth(oauth)
  if (serverInfo !== undefined) builder = builder.withServerInfo(serverInfo)
  if (instructions !== undefined) builder = builder.withInstructions(instructions)
  if (telemetry !== undefined) builder = builder.withTelemetry(telemetry)
  return builder.withOptions(options satisfies McpAdapterOptions).build()
}

/** Serves the web-standard handler without a socket. */
export function web(handler: FetchHandler, origin = 'http://localhost:3000'): Served {
  return {
    origin,
    async send({ method = 'POST', path = '/mcp', headers = {}, body, unfinished = false }) {
      const init: RequestInit & { duplex?: 'half' } = { method, headers: definedOf(headers) }
      if (typeof body === 'string' || Buffer.isBuffer(body)) {
        init.body = typeof body === 'string' ? body : new Uint8Array(body)
        init.headers = { 'content-length': String(Buffer.byteLength(body)), ...init.headers }
      } else if (body !== undefined) {
        init.body = streamOf(body, unfinished)
        init.duplex = 'half'
      }
      return await readAnswer(await handler(new Request(new URL(path, origin), init)))
    },
    close: async () => undefined,
  }
}

function streamOf(chunks: readonly (string | Buffer)[], unfinished: boolean): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start(controller) {
      for (const chunk of chunks) controller.enqueue(Buffer.from(chunk))
      if (!unfinished) controller.close()
    },
  })
}

/** Middleware on Express 5. */
export async function onExpress(...middleware: NodeMiddleware[]): Promise<Listening> {
  const app = express().set('env', 'test') // keeps its error handler off the console
  for (const one of middleware) app.use('/mcp', one as express.RequestHandler)
  return await listen(app)
}

/** Middleware on a bare node:http server, one after the other; the last one has no `next`. */
export async function onNode(...middleware: NodeMiddleware[]): Promise<Listening> {
  return await listen((req, res) => {
    const run = (index: number): void =>
      middleware[index]?.(req, res, index + 1 < middleware.length ? () => run(index + 1) : undefined)
    run(0)
  })
}

const json = (): NodeMiddleware => express.json({ limit: '16mb' }) as unknown as NodeMiddleware

/** Every way to serve an adapter. */
export const ENTRY_POINTS: readonly EntryPoint[] = [
  {
    name: 'handler of KitMcpServer',
    parsed: false,
    auth: false,
    wire: false,
    serve: async (setup) => web(build(setup).handler),
  },
  {
    name: 'server of createMcpAdapter',
    parsed: false,
    auth: false,
    wire: false,
    serve: async (setup) => web(createMcpAdapter(setup).server),
  },
  {
    name: 'mcpHandler on Express',
    parsed: false,
    auth: false,
    wire: true,
    serve: async (setup) => onExpress(mcpHandler(build(setup))),
  },
  {
    name: 'express.json and mcpHandler',
    parsed: true,
    auth: false,
    wire: true,
    serve: async (setup) => onExpress(json(), mcpHandler(createMcpAdapter(setup))),
  },
  {
    name: 'mcpCors, mcpAuth and mcpHandler',
    parsed: false,
    auth: true,
    wire: true,
    async serve(setup) {
      const adapter = build(setup)
      const auth = setup.oauth === undefined ? [] : [mcpAuth(adapter)]
      return await onExpress(mcpCors(), ...auth, mcpHandler(adapter))
    },
  },
  {
    name: 'express.json, mcpCors, mcpAuth and mcpHandler',
    parsed: true,
    auth: true,
    wire: true,
    async serve(setup) {
      const adapter = createMcpAdapter(setup)
      const auth = setup.oauth === undefined ? [] : [mcpAuth(adapter)]
      return await onExpress(json(), mcpCors(), ...auth, mcpHandler(adapter))
    },
  },
  {
    name: 'mcpHandler on node:http',
    parsed: false,
    auth: false,
    wire: true,
    serve: async (setup) => onNode(mcpHandler(createMcpAdapter(setup))),
  },
  {
    name: 'mcpCors, mcpAuth and mcpHandler on node:http',
    parsed: false,
    auth: true,
    wire: true,
    async serve(setup) {
      const adapter = createMcpAdapter(setup)
      const auth = setup.oauth === undefined ? [] : [mcpAuth(adapter)]
      return await onNode(mcpCors(), ...auth, mcpHandler(adapter))
    },
  },
]

/** Runs `serve` before the tests of a suite and closes it after them. */
export function serving(serve: () => Promise<Served>): () => Served {
  let served: Served | undefined
  before(async () => {
    served = await serve()
  })
  after(async () => served?.close())
  return () => served as Served
}
