import { AsyncLocalStorage } from 'node:async_hooks'
import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { mock } from 'node:test'
import { expect } from 'chai'
import { z } from 'zod'
import { mcpHandler } from '../../../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../../src/mcp/router/router.ts'
import { StreamClock } from '../../../../src/mcp/sdk/streams/stream-clock.ts'
import { countTimers } from '../../../support/count-timers.ts'
import { type FakeTime, fakeTime } from '../../../support/fake-time.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import { TASKS, TaskClient } from '../../../support/mcp/tasks.ts'
import {
  bearer,
  definedOf,
  LEGACY,
  type Listening,
  legacy,
  listen,
  modern,
  rpc,
  type WireRequest,
} from '../../../support/mcp/wire.ts'

describe('StreamClock', () => {
  let time: FakeTime
  let startedAtMs: number
  let clock: StreamClock
  beforeEach(() => {
    time = fakeTime()
    startedAtMs = Date.now()
    clock = new StreamClock()
  })
  afterEach(() => time.restore())

  /** Watches a stream that records when it is served, in milliseconds. */
  function watched(expiresInMs?: number) {
    const keptAlive: number[] = []
    const expired: number[] = []
    const stop = clock.watch(
      {
        keepAlive: () => keptAlive.push(Date.now() - startedAtMs),
        expire: () => expired.push(Date.now() - startedAtMs),
      },
      expiresInMs === undefined ? undefined : (Date.now() + expiresInMs) / 1000,
    )
    return { keptAlive, expired, stop }
  }

  it('every stream is kept alive each 15 s, at most 100 ms late, regardless of when it was opened', () => {
    const openedAt: number[] = []
    const streams = Array.from({ length: 300 }, (_, index) => {
      openedAt.push(Date.now() - startedAtMs)
      const stream = watched()
      time.advance((index * 37) % 200)
      return stream
    })
    time.advance(60_000)
    for (const [index, { keptAlive, stop }] of streams.entries()) {
      let previous = openedAt[index] as number
      expect(keptAlive.length).to.be.at.least(3)
      for (const at of keptAlive) {
        expect(at - previous).to.be.within(15_000, 15_110)
        previous = at
      }
      stop()
    }
  })

  it('each stream expires once, at most 100 ms late, in any order of expiries', () => {
    const after = [16_000, 5, -5_000, 90_000, 14_999, 15_000, 70, 15_001, 20, 46_010]
    const streams = after.map((ms) => ({ ms, ...watched(ms) }))
    time.advance(100_000)
    for (const { ms, expired } of streams) {
      expect(expired).to.have.length(1)
      expect(expired[0]).to.be.within(Math.max(ms, 0), Math.max(ms, 0) + 110)
    }
  })

  it('a stream that has expired is not kept alive any more', () => {
    const { keptAlive } = watched(20_000)
    time.advance(100_000)
    expect(keptAlive).to.have.length(1)
  })

  it('a stopped stream is neither kept alive nor expires', () => {
    const streams = [watched(20_000), watched(), watched(100)]
    for (const { stop } of streams) stop()
    for (const { stop } of streams) stop()
    time.advance(60_000)
    for (const { keptAlive, expired } of streams) expect([keptAlive, expired]).to.deep.equal([[], []])
  })

  it('a stream may end another one, and open a new one, while it is served', () => {
    const other = watched()
    let opened: ReturnType<typeof watched> | undefined
    clock.watch({
      keepAlive: () => {
        other.stop()
        opened ??= watched()
      },
    })
    const last = watched()
    time.advance(15_100)
    expect([other.keptAlive.length, opened?.keptAlive.length, last.keptAlive.length]).to.deep.equal([1, 0, 1])
    time.advance(15_100)
    expect([other.keptAlive.length, opened?.keptAlive.length, last.keptAlive.length]).to.deep.equal([1, 1, 2])
  })
})

describe('StreamClock with real timers', () => {
  it('a clock sets one timer for 1,000 streams, and none once they have ended', async () => {
    const timers = mock.method(globalThis, 'setTimeout')
    try {
      const clock = new StreamClock()
      const stops = Array.from({ length: 1_000 }, () =>
        clock.watch({ keepAlive: () => undefined, expire: () => undefined }, Date.now() / 1000 + 600),
      )
      expect(timers.mock.callCount()).to.equal(1)
      for (const stop of stops) stop()
      // A stream that is due at once brings the timer forward. It fires, and finds nothing else.
      await new Promise<void>((resolve) =>
        clock.watch({ keepAlive: () => undefined, expire: resolve }, Date.now() / 1000),
      )
      await new Promise(setImmediate)
      expect(timers.mock.callCount()).to.equal(2)
    } finally {
      timers.mock.restore()
    }
  })

  it('a clock does not keep the context of the request that opens a stream', async () => {
    const storage = new AsyncLocalStorage<string>()
    const clock = new StreamClock()
    const context = await storage.run(
      'request',
      () =>
        new Promise((resolve) =>
          clock.watch(
            { keepAlive: () => undefined, expire: () => resolve(storage.getStore()) },
            Date.now() / 1000,
          ),
        ),
    )
    expect(context).to.equal(undefined)
  })
})

const WITH_TASKS = { 'io.modelcontextprotocol/clientCapabilities': { extensions: { [TASKS]: {} } } }
const REPORT = rpc('tools/call', { name: 'report', arguments: {}, _meta: { progressToken: 1 } })
const INITIALIZE = rpc('initialize', {
  protocolVersion: LEGACY,
  capabilities: {},
  clientInfo: { name: 'test', version: '1' },
})

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

    it(`streams that stay open need one timer, opened with ${what}`, async () => {
      const timers = countTimers()
      try {
        for (let count = 0; count < 5; count++) await opened()
        const few = timers.live.size
        for (let count = 0; count < 30; count++) await opened()
        expect(timers.live.size).to.be.at.most(few + 5)
      } finally {
        timers.stop()
      }
    })

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
