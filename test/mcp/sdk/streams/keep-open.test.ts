import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../../../src/index.ts'
import { keepOpen } from '../../../../src/mcp/sdk/streams/event-outlet.ts'
import { type FakeTime, fakeTime } from '../../../support/fake-time.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { TASKS, TaskClient } from '../../../support/mcp/tasks.ts'
import {
  bearer,
  definedOf,
  initialization,
  type Listening,
  legacy,
  listen,
  modern,
  rpc,
  type WireRequest,
} from '../../../support/mcp/wire.ts'

describe('keepOpen()', () => {
  let time: FakeTime
  beforeEach(() => {
    time = fakeTime()
  })
  afterEach(() => time.restore())

  /** Keeps a stream open, and records when it is served, in milliseconds. */
  function watched(expiresInMs?: number) {
    const startedAtMs = Date.now()
    const comments: number[] = []
    const expired: number[] = []
    const stop = keepOpen(
      () => comments.push(Date.now() - startedAtMs),
      expiresInMs === undefined ? undefined : (startedAtMs + expiresInMs) / 1000,
      () => expired.push(Date.now() - startedAtMs),
    )
    return { comments, expired, stop }
  }

  it('each stream expires once, at most 100 ms late, and gets comments until then', () => {
    const after = [16_000, 5, -5_000, 90_000, 14_999, 15_000, 15_001, 46_010]
    const streams = after.map((ms) => ({ ms, ...watched(ms) }))
    time.advance(100_000)
    for (const { ms, expired, comments } of streams) {
      expect(expired).to.have.length(1)
      expect(expired[0]).to.be.within(Math.max(ms, 0), Math.max(ms, 0) + 110)
      expect(comments).to.have.length(Math.max(0, Math.ceil(ms / 15_000) - 1))
    }
  })

  it('a stopped stream gets no comments, and does not expire', () => {
    const streams = [watched(20_000), watched(), watched(100)]
    for (const { stop } of streams) stop()
    for (const { stop } of streams) stop()
    time.advance(60_000)
    for (const { comments, expired } of streams) expect([comments, expired]).to.deep.equal([[], []])
  })

  it('a stream that ends while it is served is not served again', () => {
    let comments = 0
    const stop = keepOpen(() => {
      comments++
      stop()
    })
    time.advance(60_000)
    expect(comments).to.equal(1)
  })
})

describe('keepOpen() with real timers', () => {
  it('a timer does not keep the context of the request that opens a stream', async () => {
    const storage = new AsyncLocalStorage<string>()
    const context = await storage.run(
      'request',
      () =>
        new Promise((resolve) =>
          keepOpen(
            () => undefined,
            Date.now() / 1000,
            () => resolve(storage.getStore()),
          ),
        ),
    )
    expect(context).to.equal(undefined)
  })
})

const WITH_TASKS = { 'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } } }
const REPORT = rpc('tools/call', { name: 'report', arguments: {}, _meta: { progressToken: 1 } })
const INITIALIZE = initialization()

/** The ways in which a client opens a stream that stays open. */
const STREAMS: readonly {
  readonly what: string
  readonly sessions?: boolean
  readonly hasExpiry: boolean
  /** @param taskId returns the id of a task, which is the same at each call */
  open(server: Listening, taskId: () => Promise<string>): Promise<WireRequest>
}[] = [
  {
    what: 'a GET without sessions',
    hasExpiry: true,
    open: async () => ({ method: 'GET', headers: { accept: 'text/event-stream' } }),
  },
  {
    what: 'a GET in a session',
    sessions: true,
    hasExpiry: true,
    open: async (server) => ({
      method: 'GET',
      headers: { accept: 'text/event-stream', 'mcp-session-id': await beginSession(server) },
    }),
  },
  {
    what: 'subscriptions/listen',
    hasExpiry: true,
    open: async () => modern('subscriptions/listen', { notifications: { toolsListChanged: true } }),
  },
  {
    what: 'subscriptions/listen for a task',
    hasExpiry: true,
    open: async (_server, taskId) =>
      modern('subscriptions/listen', { notifications: { taskIds: [await taskId()] }, _meta: WITH_TASKS }),
  },
  {
    what: 'a call of a 2025 revision',
    hasExpiry: false,
    open: async () => legacy(REPORT),
  },
  {
    what: 'a call in a session',
    sessions: true,
    hasExpiry: false,
    open: async (server) => legacy(REPORT, { 'mcp-session-id': await beginSession(server) }),
  },
  {
    what: 'a call of revision 2026-07-28',
    hasExpiry: false,
    open: async () => modern('tools/call', { name: 'report', _meta: { progressToken: 1 } }),
  },
]

async function beginSession(server: Listening): Promise<string> {
  const { headers } = await server.send(legacy(INITIALIZE, bearer('reader')))
  return headers.get('mcp-session-id') as string
}

for (const { what, sessions = false, hasExpiry, open } of STREAMS) {
  describe(`mcp/sdk/streams: ${what}`, () => {
    let server: Listening
    let expiresAt: number
    let close: () => Promise<void>
    let sockets: IncomingMessage[]
    let taskId: Promise<string> | undefined

    beforeEach(async () => {
      const many = { max: 1_000, maxPerOwner: 1_000 }
      const router = KitMcpRouter.create()
        .tool(
          'task',
          { description: 'x', input: z.object({}), task: 'required' },
          async (_args, { signal }) => {
            await once(signal, 'abort')
            return 'done'
          },
        )
        .tool('report', { description: 'x' }, async (_args, context) => {
          await context.progress(1)
          await once(context.signal, 'abort')
          return 'done'
        })
      expiresAt = Math.ceil(Date.now() / 1000) + 40
      const verifyToken = () => ({ valid: true, scopes: ['mcp:read'], user: { sub: 'ada' }, expiresAt })
      const adapter = createMcpAdapter({
        router,
        oauth: oauth({ verifyToken }),
        streams: many,
        ...(sessions && { sessions: many }),
      })
      server = await listen(mcpHandler(adapter))
      sockets = []
      taskId = undefined
      close = async () => {
        for (const socket of sockets) socket.destroy()
        await adapter.tasks.close()
        await server.close()
      }
    })
    afterEach(() => close())

    async function opened(): Promise<IncomingMessage> {
      const {
        method = 'POST',
        headers = {},
        body,
      } = await open(server, () => {
        taskId ??= new TaskClient(server, bearer('reader')).start('task')
        return taskId
      })
      const outgoing = httpRequest({
        host: '127.0.0.1',
        port: server.port,
        path: '/mcp',
        method,
        agent: false,
        headers: { ...definedOf(headers), ...bearer('reader') },
      })
      outgoing.end(body as string | undefined).on('error', () => undefined)
      const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
      sockets.push(response)
      expect(response.headers['content-type']).to.equal('text/event-stream')
      response.setEncoding('utf8').on('error', () => undefined)
      return response
    }

    /** Reads until the text so far ends with a comment, or the stream ends. */
    async function read(response: IncomingMessage, end?: string): Promise<void> {
      let text = ''
      for await (const chunk of response.iterator({ destroyOnReturn: false })) {
        text += chunk
        if (end !== undefined && text.endsWith(end)) return
      }
    }

    it(`a stream is kept open with a comment every 15 s, opened with ${what}`, async () => {
      const time = fakeTime()
      try {
        const response = await opened()
        for (let count = 0; count < 2; count++) {
          const comment = read(response, ': keep-alive\n\n')
          time.advance(15_100)
          await comment
        }
      } finally {
        time.restore()
      }
    })

    if (!hasExpiry) return
    it(`a stream ends when its token expires, opened with ${what}`, async () => {
      const time = fakeTime()
      try {
        const response = await opened()
        const ended = read(response)
        time.advance(expiresAt * 1000 - Date.now() - 1)
        await new Promise(setImmediate)
        expect(response.complete).to.equal(false)
        time.advance(101)
        await ended
        expect(response.complete).to.equal(true)
      } finally {
        time.restore()
      }
    })
  })
}
