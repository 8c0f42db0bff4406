import { once } from 'node:events'
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { LoggingMessageNotificationSchema } from '@modelcontextprotocol/sdk/types.js'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, KitToolError, mcpAuth, mcpCors, mcpHandler } from '../../src/index.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { onExpress, serving } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { LEGACY, MODERN, type Signalled, signalled } from '../support/mcp/wire.ts'

const INFO = { name: 'test', version: '1.0.0' }

interface Log {
  readonly level: string
  readonly data?: unknown
}

interface CallOptions {
  readonly signal?: AbortSignal
  readonly onprogress?: (progress: { progress: number; total?: number; message?: string }) => void
}

/** The members that the clients share. */
interface AnyClient {
  revision(): string | undefined
  listTools(): Promise<any>
  callTool(name: string, args?: Record<string, unknown>, options?: CallOptions): Promise<any>
  close(): Promise<void>
}

type Connect = (url: URL, fetch: typeof globalThis.fetch, onLog: (log: Log) => void) => Promise<AnyClient>

/** A connected v2 client. */
const v2 =
  (mode: 'legacy' | { pin: string }): Connect =>
  async (url, fetch, onLog) => {
    const client = new ClientV2(INFO, { versionNegotiation: { mode } })
    client.setNotificationHandler('notifications/message', ({ params }) => onLog(params))
    await client.connect(new TransportV2(url, { fetch }))
    // Where 2026-07-28 has no logging/setLevel, each request says what it wants to hear.
    const meta = mode === 'legacy' ? {} : { _meta: { 'io.modelcontextprotocol/logLevel': 'debug' } }
    return {
      revision: () => client.getNegotiatedProtocolVersion(),
      listTools: () => client.listTools(),
      callTool: (name, args = {}, options = {}) =>
        client.callTool({ name, arguments: args, ...meta } as never, options as never),
      close: () => client.close(),
    }
  }

/** A connected v1 client. */
const v1: Connect = async (url, fetch, onLog) => {
  const client = new ClientV1(INFO)
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) => onLog(params))
  const transport = new TransportV1(url, { fetch })
  // The cast is for `exactOptionalPropertyTypes`, which v1's own types do not pass.
  await client.connect(transport as Parameters<typeof client.connect>[0])
  return {
    revision: () => transport.protocolVersion,
    listTools: () => client.listTools(),
    callTool: (name, args = {}, options = {}) =>
      client.callTool({ name, arguments: args }, undefined, options as never),
    close: () => client.close(),
  }
}

const CLIENTS: readonly { name: string; revision: string; connect: Connect }[] = [
  { name: 'v2 client, legacy era', revision: LEGACY, connect: v2('legacy') },
  { name: 'v2 client, 2026-07-28', revision: MODERN, connect: v2({ pin: MODERN }) },
  { name: 'v1 client', revision: LEGACY, connect: v1 },
]

/** The latest call of the tool `wait`. */
let waiting: { started: Signalled; aborted: Signalled<boolean> }

const router = KitMcpRouter.create()
  .tool(
    'add',
    {
      title: 'Add',
      description: 'Adds two numbers',
      input: z.object({ a: z.number(), b: z.number() }),
      output: z.object({ sum: z.number() }),
      annotations: { readOnlyHint: true },
    },
    ({ a, b }) => ({ sum: a + b }),
  )
  .tool('fail', { description: 'Fails' }, () => {
    throw new KitToolError('no such note')
  })
  .tool('count', { description: 'Counts to two' }, async (_args, { log, progress }) => {
    await log('warning', { counting: true })
    await progress(1, 2, 'one')
    await progress(2, 2)
    return 'two'
  })
  .tool('wait', { description: 'Waits to be aborted' }, async (_args, { signal }) => {
    waiting.started.resolve()
    await once(signal, 'abort')
    waiting.aborted.resolve(signal.aborted)
  })

describe('mcp: clients of the official SDK through Express', () => {
  const served = serving(() => {
    const adapter = createMcpAdapter({ router, oauth: oauth() })
    return onExpress(mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  })

  for (const { name, revision, connect } of CLIENTS) {
    describe(name, () => {
      let client: AnyClient
      let logs: Log[]
      /** Every request of the client so far: method and status. */
      let requests: string[]
      let sawGet: Signalled

      beforeEach(async () => {
        logs = []
        requests = []
        sawGet = signalled()
        waiting = { started: signalled(), aborted: signalled<boolean>() }
        const recordingFetch: typeof fetch = async (input, init) => {
          const headers = new Headers(init?.headers)
          headers.set('authorization', 'Bearer reader')
          const response = await fetch(input, { ...init, headers })
          requests.push(`${init?.method} ${response.status}`)
          if (init?.method === 'GET') sawGet.resolve()
          return response
        }
        client = await connect(new URL('/mcp', served().origin), recordingFetch, (log) => logs.push(log))
      })
      afterEach(async () => client.close())

      it(`a client negotiates ${revision}`, () => {
        expect(client.revision()).to.equal(revision)
      })

      it('a client lists the tools with their descriptions', async () => {
        const { tools } = await client.listTools()
        expect(tools.map((tool: { name: string }) => tool.name)).to.deep.equal([
          'add',
          'fail',
          'count',
          'wait',
        ])
        expect(tools[0]).to.deep.include({
          title: 'Add',
          description: 'Adds two numbers',
          annotations: { readOnlyHint: true },
        })
        expect(tools[0].inputSchema).to.deep.include({ type: 'object', required: ['a', 'b'] })
        expect(tools[0].outputSchema.properties.sum).to.deep.equal({ type: 'number' })
        expect(tools[1].inputSchema).to.deep.equal({ type: 'object', properties: {} })
      })

      it('a client receives text and structured content', async () => {
        await client.listTools() // so that the client validates the output against its schema
        const result = await client.callTool('add', { a: 1, b: 2 })
        expect(result.structuredContent).to.deep.equal({ sum: 3 })
        expect(result.content).to.deep.equal([{ type: 'text', text: '{"sum":3}' }])
        expect(result.isError).to.not.equal(true)
      })

      it('a client receives an error of a tool as a result', async () => {
        const result = await client.callTool('fail')
        expect(result.isError).to.equal(true)
        expect(result.content).to.deep.equal([{ type: 'text', text: 'no such note' }])
      })

      it('a client receives problems of its arguments as a result', async () => {
        const result = await client.callTool('add', { a: 1, b: 'two' })
        expect(result.isError).to.equal(true)
        expect(result.content[0].text).to.match(/^Invalid arguments for tool add: b: /)
      })

      it('a client receives log messages and progress before the result', async () => {
        const progress: unknown[] = []
        const result = await client.callTool('count', {}, { onprogress: (step) => progress.push(step) })
        expect(result.content[0].text).to.equal('two')
        expect(progress).to.deep.equal([
          { progress: 1, total: 2, message: 'one' },
          { progress: 2, total: 2 },
        ])
        expect(logs.map(({ level, data }) => ({ level, data }))).to.deep.equal([
          { level: 'warning', data: { counting: true } },
        ])
      })

      it('a client receives no progress unless it has asked for it', async () => {
        const result = await client.callTool('count')
        expect(result.content[0].text).to.equal('two')
      })

      it('a client that disconnects aborts the signal of the handler', async () => {
        const calling = client.callTool('wait').catch((error: unknown) => error)
        await waiting.started.promise
        await client.close()
        expect(await waiting.aborted.promise).to.equal(true)
        expect(await calling).to.be.instanceOf(Error)
      })

      it('a client can cancel a call', async () => {
        const abort = new AbortController()
        const calling = client.callTool('wait', {}, { signal: abort.signal }).catch((error: unknown) => error)
        await waiting.started.promise
        abort.abort()
        expect(await calling).to.be.instanceOf(Error)
        // In the legacy era canceling is a message, and without sessions nothing says which call it means.
        if (revision === LEGACY) await client.close()
        expect(await waiting.aborted.promise).to.equal(true)
      })

      if (revision === LEGACY) {
        it('a client opens an event stream with GET', async () => {
          await sawGet.promise
          expect(requests).to.include('GET 200')
        })
      } else {
        it('a client sends only POST requests', async () => {
          await client.callTool('add', { a: 1, b: 2 })
          expect(new Set(requests)).to.deep.equal(new Set(['POST 200']))
        })
      }
    })
  }
})
