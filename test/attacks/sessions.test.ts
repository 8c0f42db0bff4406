import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { InMemoryServerEventBus, inputRequired, McpServer, Server } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { cachedVerifier, firstMatch, KitMcpRouter, mcpHandler, type ServerFactory } from '../../src/index.ts'
import { type CreateMcpAdapterOptions, createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import { introspectionVerifier } from '../../src/oauth/verifiers/introspection.ts'
import { spokenOAuth, token } from '../support/attacks/spoken-tokens.ts'
import { listen } from '../support/listen.ts'
import {
  bearer,
  call,
  definedOf,
  firstEvents as events,
  eventsOf,
  initialization,
  LEGACY,
  legacy,
  modern,
  rpc,
  type Signalled,
  send as sendTo,
  signalled,
  type WireAnswer,
  type WireRequest,
} from '../support/mcp/wire.ts'
import { until } from '../support/until.ts'

const READ = ['mcp:read']
const WRITE = ['mcp:read', 'mcp:write']

const initialize = (capabilities: object = { elicitation: {} }) => initialization(capabilities)

type Headers = Record<string, string>

/** A server on Node.js, with methods that send the requests of attackers. */
class Target {
  readonly adapter: McpAdapter
  readonly bus = new InMemoryServerEventBus()
  readonly port: number
  readonly #open: IncomingMessage[] = []

  private constructor(adapter: McpAdapter, bus: InMemoryServerEventBus, port: number) {
    this.adapter = adapter
    this.bus = bus
    this.port = port
  }

  static async start(options: Partial<CreateMcpAdapterOptions> & Pick<CreateMcpAdapterOptions, 'router'>) {
    const bus = new InMemoryServerEventBus()
    const adapter = createMcpAdapter({ oauth: spokenOAuth(), sessions: true, eventBus: bus, ...options })
    const { port } = await listen(mcpHandler(adapter))
    return new Target(adapter, bus, port)
  }

  send(as: string | undefined, request: WireRequest, headers: Headers = {}): Promise<WireAnswer> {
    const all = { ...request.headers, ...(as !== undefined && bearer(as)), ...headers }
    return sendTo(this.port, { ...request, headers: all })
  }

  async begin(as: string | undefined, message: unknown = initialize()): Promise<Headers> {
    const answer = await this.send(as, legacy(message, { 'mcp-protocol-version': undefined }))
    expect(answer.status).to.equal(200)
    return { 'mcp-session-id': answer.headers.get('mcp-session-id') as string }
  }

  async status(as: string | undefined, session: Headers): Promise<number> {
    return (await this.send(as, legacy(rpc('ping', undefined, 'ping')), session)).status
  }

  /** Opens a stream that stays open: a GET, or a POST of `body`. */
  async stream(
    as: string | undefined,
    headers: Headers = {},
    { body, localAddress }: { body?: WireRequest; localAddress?: string } = {},
  ): Promise<IncomingMessage> {
    const outgoing = httpRequest({
      host: '127.0.0.1',
      port: this.port,
      path: '/mcp',
      agent: false,
      method: body === undefined ? 'GET' : 'POST',
      ...(localAddress !== undefined && { localAddress }),
      headers: definedOf({
        accept: 'text/event-stream',
        'mcp-protocol-version': LEGACY,
        ...body?.headers,
        ...(as !== undefined && bearer(as)),
        ...headers,
      }),
    })
    outgoing.on('error', () => undefined)
    outgoing.end(body?.body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    response.on('error', () => undefined)
    this.#open.push(response)
    return response
  }

  listen(as: string, notifications: object): Promise<IncomingMessage> {
    return this.stream(as, {}, { body: modern('subscriptions/listen', { notifications }) })
  }
}

async function textOf(stream: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of stream) text += chunk
  return text
}

describe('attacks on sessions', () => {
  describe('with a router function', () => {
    let made: string[]
    let hold: Signalled
    let began: Signalled
    beforeEach(() => {
      made = []
      hold = signalled()
      began = signalled()
    })

    const content = (text: string) => ({ content: [{ type: 'text' as const, text }] })

    /** An application that gives each caller the tools that the scopes of its token allow. */
    const router: ServerFactory = ({ auth }) => {
      made.push(`${auth?.clientId} ${auth?.scopes.join(' ')}`)
      const server = new McpServer({ name: 'existing', version: '1' })
      server.registerTool('read', { description: 'x' }, () => content('read'))
      if (auth?.scopes.includes('mcp:write')) {
        server.registerTool('wipe', { description: 'x' }, () => content('wiped'))
        server.registerTool('wait', { description: 'x' }, async () => {
          began.resolve()
          await hold.promise
          return content('done')
        })
      }
      return server
    }
    const wide = token('ada', WRITE)
    const first = token('ada', WRITE, 'web', { claims: { roles: ['admin'] } }, { sub: 'agent' })
    const OTHERS = [
      [
        'a token with fewer scopes',
        token('ada', READ, 'web', { claims: { roles: ['admin'] } }, { sub: 'agent' }),
      ],
      [
        'a token with more scopes',
        token('ada', [...WRITE, 'mcp:admin'], 'web', { claims: { roles: ['admin'] } }, { sub: 'agent' }),
      ],
      [
        'a token of another client',
        token('ada', WRITE, 'phone', { claims: { roles: ['admin'] } }, { sub: 'agent' }),
      ],
      [
        'a token of the user after the loss of a role',
        token('ada', WRITE, 'web', { claims: { roles: [] } }, { sub: 'agent' }),
      ],
      [
        'a token of another actor',
        token('ada', WRITE, 'web', { claims: { roles: ['admin'] } }, { sub: 'other' }),
      ],
      ['a token without an actor', token('ada', WRITE, 'web', { claims: { roles: ['admin'] } })],
      [
        'a token of another user',
        token('bob', WRITE, 'web', { claims: { roles: ['admin'] } }, { sub: 'agent' }),
      ],
    ] as const

    for (const [what, other] of OTHERS)
      it(`authority of a session: ${what}, with every kind of request, during a call of the first token: 404, no second server is made, and the first token goes on`, async () => {
        const target = await Target.start({ router })
        const session = await target.begin(first)
        const waiting = target.send(first, legacy(call('wait', {}, 'wait')), session)
        await began.promise
        const cancelled = {
          jsonrpc: '2.0',
          method: 'notifications/cancelled',
          params: { requestId: 'wait' },
        }
        for (const message of [call('read'), call('wipe'), rpc('tools/list'), cancelled]) {
          const { status, text } = await target.send(other, legacy(message), session)
          expect([status, JSON.parse(text).error.code]).to.deep.equal([404, -32_001])
        }
        expect((await target.stream(other, session)).statusCode).to.equal(404)
        const end = { method: 'DELETE', headers: { 'mcp-protocol-version': LEGACY } }
        expect((await target.send(other, end, session)).status).to.equal(404)
        hold.resolve()
        expect((await waiting).message.result.content[0].text).to.equal('done')
        expect(made).to.have.length(1)
        expect(await target.status(other, await target.begin(other))).to.equal(200)
      })

    it('authority of a session: a refreshed token of the same user, with other times and another id at any depth: the server is kept', async () => {
      const target = await Target.start({ router })
      const refreshed = (time: number) => {
        const times = { exp: time, iat: time, nbf: time, jti: `${time}`, auth_time: time }
        return token('ada', WRITE, 'web', { ...times, claims: { ...times, act: { sub: 'x', ...times } } })
      }
      const session = await target.begin(refreshed(1))
      for (const time of [2, 3]) expect(await target.status(refreshed(time), session)).to.equal(200)
      expect(made).to.have.length(1)
    })

    it('authority of a session: a refreshed token with the same scopes in another order: the server is kept', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(wide)
      for (const scopes of [[...WRITE].reverse(), [...WRITE, ...WRITE]])
        expect(await target.status(token('ada', scopes), session)).to.equal(200)
      expect(made).to.have.length(1)
    })

    it('authority of a session: a token in a session that was opened without a token: 404, and the session goes on without a token', async () => {
      const target = await Target.start({ router, oauth: spokenOAuth({ anonymous: true }) })
      const session = await target.begin(undefined)
      expect(await target.status(wide, session)).to.equal(404)
      expect(await target.status(undefined, session)).to.equal(200)
      expect(made).to.have.length(1)
    })
  })

  describe('with a typed router', () => {
    let waiting: Map<string, Signalled>
    let began: number
    let aborted: number
    beforeEach(() => {
      waiting = new Map()
      began = 0
      aborted = 0
    })
    const router = KitMcpRouter.create()
      .tool(
        'wait',
        { description: 'x', input: z.object({ name: z.string() }) },
        async ({ name }, { signal }) => {
          signal.addEventListener('abort', () => aborted++)
          const held = signalled()
          waiting.set(name, held)
          began++
          await held.promise
          return name
        },
      )
      .tool('odd', { description: 'x' }, () => 'fine')
      .tool('large', { description: 'x', input: z.object({ size: z.number() }) }, ({ size }) =>
        'é'.repeat(size),
      )
      .tool('secret', { description: 'x', scopes: ['mcp:write'] }, (_args, { releaseStream }) => {
        releaseStream()
        return 'the secret'
      })
      .tool('question', { description: 'x', scopes: ['mcp:write'] }, (_args, { inputRequired: ask }) =>
        ask({
          name: inputRequired.elicit({ message: 'x', requestedSchema: { type: 'object', properties: {} } }),
        }),
      )
      .resource('open', { uri: 'notes://open' }, () => 'x')
      .resource('scoped', { uri: 'notes://scoped', scopes: ['mcp:write'] }, () => 'x')
      .resourceTemplate(
        'scoped-too',
        { uriTemplate: 'notes://scoped/{id}', scopes: ['mcp:write'] },
        () => 'x',
      )

    const held = (name: string, id: unknown) => legacy(call('wait', { name }, id))
    const release = (name: string) => waiting.get(name)?.resolve()
    const started = (count: number) => until(() => began === count)
    const ada = token('ada', READ)

    it('ids of requests in a session: two requests with one id at once: the second gets 400, and the first gets its own response', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const first = target.send(ada, held('first', 7), session)
      await started(1)
      const second = await target.send(ada, held('second', 7), session)
      expect(second.status).to.equal(400)
      expect(second.message.error.code).to.equal(-32_600)
      release('first')
      expect((await first).message.result.content[0].text).to.equal('first')
      expect(began).to.equal(1)
    })

    it('ids of requests in a session: fifty requests with one id at the same time: one succeeds', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const sent = Array.from(
        { length: 50 },
        async () => (await target.send(ada, held('one', 7), session)).status,
      )
      const rest = Promise.all(sent)
      await until(async () => {
        release('one')
        return (await Promise.race([rest, new Promise((resolve) => setTimeout(resolve, 20))])) !== undefined
      })
      const statuses = await rest
      expect(statuses.filter((status) => status === 200)).to.have.length(began)
      expect(statuses.filter((status) => status === 400)).to.have.length(50 - began)
    })

    it('ids of requests in a session: the ids 1 and "1" at once: both get a response', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const sent = [
        target.send(ada, held('number', 1), session),
        target.send(ada, held('text', '1'), session),
      ]
      await started(2)
      release('number')
      release('text')
      const [number, text] = await Promise.all(sent)
      expect([number?.message.id, number?.message.result.content[0].text]).to.deep.equal([1, 'number'])
      expect([text?.message.id, text?.message.result.content[0].text]).to.deep.equal(['1', 'text'])
    })

    it('ids of requests in a session: an id that is reused after its response, and after a rejected request: the request succeeds', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const unacceptable = legacy(call('odd', {}, 7), { 'mcp-protocol-version': '1999-01-01' })
      for (let time = 0; time < 3; time++) {
        expect((await target.send(ada, unacceptable, session)).status).to.equal(400)
        const { message } = await target.send(ada, legacy(call('odd', {}, 7)), session)
        expect(message.result.content[0].text).to.equal('fine')
      }
    })

    it('ids of requests in a session: a cancelled call whose id is reused: its stream ends, the right call is aborted, and the id is free', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const [one, other] = [
        target.send(ada, held('one', 7), session),
        target.send(ada, held('other', 8), session),
      ]
      await started(2)
      const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
      expect((await target.send(ada, legacy(cancelled), session)).status).to.equal(202)
      expect((await one).message.result).to.equal(undefined)
      expect(aborted).to.equal(1)
      expect((await target.send(ada, legacy(call('odd', {}, 7)), session)).message.result).not.to.equal(
        undefined,
      )
      release('other')
      expect((await other).message.result.content[0].text).to.equal('other')
    })

    it('ids of requests in a session: a client that disconnects and reuses the id: 400 while the call runs, then 200', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const stream = await target.stream(ada, session, { body: held('first', 7) })
      await started(1)
      stream.destroy()
      expect((await target.send(ada, legacy(call('odd', {}, 7)), session)).status).to.equal(400)
      release('first')
      await until(async () => (await target.send(ada, legacy(call('odd', {}, 7)), session)).status === 200)
    })

    it('ids of requests in a session: more than 1,024 calls whose client has disconnected: 429, and other sessions still work', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      for (let id = 0; id < 1_024; id++)
        (await target.stream(ada, session, { body: held(`${id}`, id) })).destroy()
      const refused = await target.send(ada, held('one more', 1_024), session)
      expect(refused.status).to.equal(429)
      expect(refused.headers.get('retry-after')).to.match(/^\d+$/)
      expect(await target.status(ada, await target.begin(ada))).to.equal(200)
    })

    const open = async (target: Target, as: string | undefined, count: number): Promise<Headers[]> => {
      const sessions: Headers[] = []
      for (let time = 0; time < count; time++) sessions.push(await target.begin(as))
      return sessions
    }
    /** Begins a session without a token at the address 127.0.0.2. Returns the headers of its requests. */
    const beginElsewhere = async (target: Target): Promise<Headers> => {
      const from = { body: legacy(initialize()), localAddress: '127.0.0.2' }
      const begun = await target.stream(undefined, {}, from)
      begun.resume()
      return { 'mcp-session-id': begun.headers['mcp-session-id'] as string }
    }
    const alive = async (
      target: Target,
      as: string | undefined,
      sessions: readonly Headers[],
    ): Promise<number> => {
      const statuses = await Promise.all(sessions.map((session) => target.status(as, session)))
      return statuses.filter((status) => status === 200).length
    }

    it('sessions and streams of one user: sessions that never end: the oldest sessions of the same user end, and those of other users are kept', async () => {
      const target = await Target.start({ router, sessions: { max: 40 } })
      const others = await open(target, token('bob', READ), 3)
      const own = await open(target, ada, 50)
      expect(await alive(target, token('bob', READ), others)).to.equal(3)
      expect(await alive(target, ada, own.slice(-10))).to.equal(10)
      expect(await alive(target, ada, own.slice(0, -10))).to.equal(0)
    })

    it('sessions and streams of one user: sessions through many clients and scopes: they count for one user', async () => {
      const target = await Target.start({ router, sessions: { maxPerOwner: 2 } })
      const own = await Promise.all(
        ['a', 'b', 'c', 'd'].map((client) => target.begin(token('ada', READ, client))),
      )
      expect(await alive(target, ada, own)).to.equal(2)
    })

    it('sessions and streams of one user: 60 sessions at the same time: as many sessions are kept as the limit allows', async () => {
      const target = await Target.start({ router, sessions: { max: 30, maxPerOwner: 7 } })
      const own = await Promise.all(Array.from({ length: 60 }, () => target.begin(ada)))
      expect(await alive(target, ada, own)).to.equal(7)
      expect(target.bus.listenerCount).to.equal(1)
    })

    it('sessions and streams of one user: sessions without OAuth: they are counted by address', async () => {
      const target = await Target.start({
        router: KitMcpRouter.create().tool('odd', { description: 'x' }, () => 'fine'),
        oauth: undefined,
        sessions: { maxPerOwner: 2 },
      })
      const elsewhere = await beginElsewhere(target)
      const own = await open(target, undefined, 5)
      expect(await alive(target, undefined, own)).to.equal(2)
      expect(await target.status(undefined, elsewhere)).to.equal(200)
    })

    it('sessions and streams of one user: sessions of one user, where sessions.max is so small that the limit of one user is above it: only own sessions end, and a user with fewer sessions gets the place of one of them', async () => {
      const bob = token('bob', READ)
      const target = await Target.start({ router, sessions: { max: 4 } })
      const first = await open(target, bob, 1)
      const own = await open(target, ada, 12)
      expect(await alive(target, ada, own.slice(-3))).to.equal(3)
      expect(await alive(target, ada, own.slice(0, -3))).to.equal(0)
      expect(await alive(target, bob, first)).to.equal(1)
      const second = await open(target, bob, 1)
      expect(await alive(target, bob, [...first, ...second])).to.equal(2)
      expect(await alive(target, ada, own)).to.equal(2)
    })

    it('sessions and streams of one user: a further session of a user who has as many sessions as another user: a session of the same user ends', async () => {
      const bob = token('bob', READ)
      const target = await Target.start({ router, sessions: { max: 4 } })
      const others = await open(target, bob, 2)
      const own = await open(target, ada, 3)
      expect(await alive(target, bob, others)).to.equal(2)
      expect(await alive(target, ada, own)).to.equal(2)
    })

    it('sessions and streams of one user: a session of a new user when all users have one session each: the session that was idle longest ends', async () => {
      const target = await Target.start({ router, sessions: { max: 3 } })
      const users = ['a', 'b', 'c', 'd'].map((user) => token(user, READ))
      const sessions: Headers[] = []
      for (const user of users.slice(0, 3)) sessions.push(await target.begin(user))
      expect(await target.status(users[0], sessions[0] as Headers)).to.equal(200)
      sessions.push(await target.begin(users[3]))
      const statuses = await Promise.all(
        users.map((user, index) => target.status(user, sessions[index] as Headers)),
      )
      expect(statuses).to.deep.equal([200, 404, 200, 200])
    })

    it('sessions and streams of one user: sessions without a token, by clients of two addresses: only sessions of the address with the most sessions end', async () => {
      const target = await Target.start({
        router,
        oauth: spokenOAuth({ anonymous: true }),
        sessions: { max: 4 },
      })
      const elsewhere = await beginElsewhere(target)
      const own = await open(target, undefined, 9)
      expect(await alive(target, undefined, own)).to.equal(3)
      expect(await target.status(undefined, elsewhere)).to.equal(200)
    })

    it('sessions and streams of one user: streams of all three kinds: 429 beyond 32 in total, other users get streams, and an ended stream frees a slot', async () => {
      const target = await Target.start({ router })
      const stateless = await Target.start({ router, sessions: false })
      const tools = { toolsListChanged: true }
      const streams: IncomingMessage[] = []
      for (let time = 0; time < 16; time++) streams.push(await target.stream(ada, await target.begin(ada)))
      for (let time = 0; time < 16; time++) streams.push(await target.listen(ada, tools))
      expect(streams.map(({ statusCode }) => statusCode)).to.deep.equal(new Array(32).fill(200))
      for (const refused of [
        await target.listen(ada, tools),
        await target.stream(ada, await target.begin(ada)),
      ]) {
        expect(refused.statusCode).to.equal(429)
        expect(refused.headers['retry-after']).to.match(/^\d+$/)
        expect(JSON.parse(await textOf(refused)).error.code).to.be.a('number')
      }
      expect((await target.listen(token('bob', READ), tools)).statusCode).to.equal(200)
      streams[20]?.destroy()
      await until(async () => (await target.listen(ada, tools)).statusCode === 200)
      const gets = await Promise.all(Array.from({ length: 33 }, () => stateless.stream(ada)))
      expect(gets.filter(({ statusCode }) => statusCode === 429)).to.have.length(1)
    })

    it('sessions and streams of one user: streams of many users: 503 beyond streams.max', async () => {
      const target = await Target.start({ router, streams: { max: 3, maxPerOwner: 2 } })
      for (const user of ['a', 'b', 'c'])
        expect((await target.listen(token(user, READ), { toolsListChanged: true })).statusCode).to.equal(200)
      const refused = await target.listen(token('d', READ), { toolsListChanged: true })
      expect(refused.statusCode).to.equal(503)
      expect(refused.headers['retry-after']).to.match(/^\d+$/)
    })

    it('sessions and streams of one user: streams of sessions that end: their slots are freed', async () => {
      const target = await Target.start({
        router,
        streams: { maxPerOwner: 1 },
        sessions: { maxPerOwner: 1 },
      })
      for (let time = 0; time < 5; time++) {
        const session = await target.begin(ada)
        expect((await target.stream(ada, session)).statusCode).to.equal(200)
        if (time % 2 === 0)
          await target.send(ada, { method: 'DELETE', headers: { 'mcp-protocol-version': LEGACY } }, session)
      }
    })

    it('sessions and streams of one user: replaced and rejected streams (200, 400): they do not take a further slot', async () => {
      const target = await Target.start({ router, streams: { maxPerOwner: 2 } })
      const session = await target.begin(ada)
      expect((await target.stream(ada, session)).statusCode).to.equal(200)
      for (let time = 0; time < 4; time++) {
        expect((await target.stream(ada, session)).statusCode).to.equal(200)
        expect((await target.stream(ada, { ...session, 'last-event-id': 'x' })).statusCode).to.equal(400)
      }
      expect((await target.listen(ada, { toolsListChanged: true })).statusCode).to.equal(200)
    })

    it('sessions and streams of one user: subscriptions/listen with 100,000 URIs, with 200 kB of URIs, and with an id of 1 MB: -32602, and the memory use does not grow', async () => {
      const target = await Target.start({ router })
      const many = Array.from({ length: 100_000 }, (_, id) => `notes://${id}`)
      const long = Array.from({ length: 1_000 }, (_, id) => `notes://${id}/${'x'.repeat(200)}`)
      for (const resourceSubscriptions of [many, long]) {
        const refused = await target.listen(ada, { resourceSubscriptions })
        expect(JSON.parse(await textOf(refused)).error.code).to.equal(-32_602)
      }
      const { headers, body } = modern('subscriptions/listen', {
        notifications: { toolsListChanged: true },
      })
      const large = { ...JSON.parse(body as string), id: 'x'.repeat(1_000_000) }
      const sent = await target.stream(
        ada,
        {},
        { body: { headers: headers as Headers, body: JSON.stringify(large) } },
      )
      expect(sent.statusCode).to.equal(400)
      expect(target.bus.listenerCount).to.equal(0)
    })

    const large = (size: number) => legacy(call('large', { size }, `large ${size}`))
    const lastIdOf = (text: string) => [...text.matchAll(/^id: (\S+)/gm)].at(-1)?.[1] as string

    it('events that a session keeps: a result of 1.2 MB in UTF-8: it is delivered, but not stored', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(ada)
      const answer = await target.send(ada, large(600_000), session)
      expect(answer.message.result.content[0].text).to.have.length(600_000)
      const priming = /^id: (\S+)/m.exec(answer.text)?.[1] as string
      const replayed = await target.stream(ada, { ...session, 'last-event-id': priming })
      expect((await events(replayed, 1))[0].error.message).to.contain('bytes')
    })

    it('events that a session keeps: 25 sessions of one user, each as full as one session may be: ten times the limit of one session is kept, the latest sessions are kept, and so are those of others', async () => {
      const target = await Target.start({
        router,
        sessions: { maxBufferedBytes: 10_000, maxPerOwner: 40 },
      })
      const bob = token('bob', READ)
      const resumable = async (as: string, { session, id }: { session: Headers; id: string }) => {
        const stream = await target.stream(as, { ...session, 'last-event-id': id })
        stream.destroy()
        return stream.statusCode === 200
      }
      const full = async (as: string) => {
        const session = await target.begin(as)
        const { text } = await target.send(as, large(4_500), session)
        return { session, id: /^id: (\S+)/m.exec(text)?.[1] as string }
      }
      const other = await full(bob)
      const own = []
      for (let time = 0; time < 25; time++) own.push(await full(ada))
      const kept = await Promise.all(own.map((one) => resumable(ada, one)))
      expect(kept.filter(Boolean)).to.have.length.within(9, 10)
      expect(kept.slice(-9)).not.to.include(false)
      expect(await resumable(bob, other)).to.equal(true)
    })

    it('events that a session keeps: Last-Event-ID of an event that was not stored: the events after it are delivered', async () => {
      const target = await Target.start({ router, sessions: { maxBufferedBytes: 4000 } })
      const session = await target.begin(ada)
      const stream = await target.stream(ada, session)
      target.adapter.notify.toolsChanged()
      let text = ''
      for await (const chunk of stream) {
        text += chunk
        if (eventsOf(text).length === 1) break
      }
      stream.destroy()
      const { text: huge } = await target.send(ada, large(2000), session)
      const gone = lastIdOf(huge)
      const resumed = await target.stream(ada, { ...session, 'last-event-id': gone })
      expect(resumed.statusCode).to.equal(200)
      expect(await textOf(resumed)).to.equal('')
      target.adapter.notify.promptsChanged()
      await until(async () => {
        const again = await target.stream(ada, { ...session, 'last-event-id': lastIdOf(text) })
        if (again.statusCode !== 200) return false
        const [missed] = await events(again, 1)
        expect(missed.method).to.equal('notifications/prompts/list_changed')
        return true
      })
    })

    const wide = token('ada', WRITE)

    /** Resolves with the contents of a stream up to the last list change. */
    const contentsOf = async (target: Target, stream: IncomingMessage): Promise<string[]> => {
      let text = ''
      for await (const chunk of stream) {
        text += chunk
        if (text.includes('tools/list_changed')) break
      }
      expect(target.port).to.be.a('number')
      return eventsOf(text).flatMap(({ params }) => (params?.uri === undefined ? [] : [params.uri]))
    }
    const URIS = ['notes://open', 'notes://scoped', 'notes://scoped/1']
    const tellAll = ({ adapter: { notify } }: Target) => {
      for (const uri of URIS) notify.resourceUpdated(uri)
      notify.toolsChanged()
    }
    const subscribe = async (target: Target, session: Headers = {}) => {
      for (const uri of URIS)
        expect(
          (await target.send(wide, legacy(rpc('resources/subscribe', { uri })), session)).status,
        ).to.equal(200)
    }

    it('updates of resources: a stream of a token without the scope, and subscriptions of one with it, without sessions: the stream contains only what its token may read', async () => {
      const target = await Target.start({
        router,
        sessions: false,
        oauth: spokenOAuth({ scopeImplies: { 'mcp:admin': ['mcp:write'] } }),
      })
      const streams = await Promise.all(
        [ada, wide, token('ada', ['mcp:admin'])].map((as) => target.stream(as)),
      )
      await subscribe(target)
      tellAll(target)
      const contents = await Promise.all(streams.map((stream) => contentsOf(target, stream)))
      expect(contents).to.deep.equal([['notes://open'], URIS, URIS])
    })

    it('updates of resources: a stream of a token without the scope in a session of one with it: the stream contains only what its token may read', async () => {
      const target = await Target.start({ router })
      for (const [as, uris] of [
        [ada, ['notes://open']],
        [wide, URIS],
      ] as const) {
        const session = await target.begin(wide)
        await subscribe(target, session)
        const stream = await target.stream(as, session)
        tellAll(target)
        expect(await contentsOf(target, stream)).to.deep.equal(uris)
      }
    })

    it('updates of resources: a token without the scope that reconnects with Last-Event-ID: it gets the missed events that its token may read', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(wide)
      await subscribe(target, session)
      const first = await target.stream(wide, session)
      target.adapter.notify.resourcesChanged()
      let text = ''
      for await (const chunk of first) {
        text += chunk
        if (text.includes('resources/list_changed')) break
      }
      first.destroy()
      const again = { ...session, 'last-event-id': lastIdOf(text) }
      // While the server treats the first stream as open, that stream contains all events.
      await until(async () => {
        const probe = await target.stream(wide, session)
        const gone = probe.statusCode === 200
        probe.destroy()
        return gone
      })
      await until(async () => {
        tellAll(target)
        const stream = await target.stream(ada, again)
        if (stream.statusCode !== 200) return false
        expect(new Set(await contentsOf(target, stream))).to.deep.equal(new Set(['notes://open']))
        return true
      })
    })

    it('updates of resources: a token without the scope that asks for the events of a call of one with it: 403 with a challenge that names the scope', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(wide)
      const { text } = await target.send(wide, legacy(call('secret')), session)
      const again = { ...session, 'last-event-id': lastIdOf(text) }
      const refused = await target.stream(ada, again)
      expect(refused.statusCode).to.equal(403)
      expect(refused.headers['www-authenticate']).to.contain('mcp:write')
      expect(await textOf(await target.stream(wide, again))).to.contain('the secret')
    })

    it('updates of resources: a token without the scope that asks again for the question of a call of one with it: 403', async () => {
      const target = await Target.start({ router })
      const session = await target.begin(wide)
      const asked = await target.stream(wide, session, { body: legacy(call('question')) })
      let text = ''
      for await (const chunk of asked) {
        text += chunk
        if (eventsOf(text).length === 1) break
      }
      expect(eventsOf(text)[0].method).to.equal('elicitation/create')
      expect((await target.stream(ada, { ...session, 'last-event-id': lastIdOf(text) })).statusCode).to.equal(
        403,
      )
    })

    it('owners: an opaque token of another authorization server with the same subject: the session is not found (404), cached or not', async () => {
      const answering = async (answers: object) =>
        (
          await listen((_req, res) => {
            res.setHeader('Content-Type', 'application/json')
            res.end(JSON.stringify({ client_id: 'cli', scope: 'mcp:read', sub: 'ada', ...answers }))
          })
        ).origin
      for (const mapUser of [undefined, () => ({ id: 'ada' })]) {
        const verifierOf = async (prefix: string) => {
          const endpoint = `${await answering({ active: true })}/introspect`
          const ask = introspectionVerifier({
            endpoint,
            clientId: 'mcp',
            clientSecret: 'secret',
            audience: false,
            ...(mapUser !== undefined && { mapUser }),
          })
          return (input: Parameters<typeof ask>[0]) =>
            input.bearerToken?.startsWith(prefix) ? ask(input) : undefined
        }
        const verify = firstMatch(await verifierOf('a'), await verifierOf('b'))
        for (const verifyToken of [verify, cachedVerifier(verify)]) {
          const target = await Target.start({ router, oauth: spokenOAuth({ verifyToken }) })
          const session = await target.begin('a1')
          for (let time = 0; time < 2; time++) {
            expect(await target.status('a2', session)).to.equal(200)
            expect(await target.status('b1', session)).to.equal(404)
          }
        }
      }
    })

    it('owners: two verifiers of the application with a user of the same id: the session of the other user is not found (404)', async () => {
      const own = (name: string) => (input: { bearerToken: string | undefined }) =>
        input.bearerToken === name ? { valid: true, user: { id: 1 }, scopes: READ } : undefined
      const verifyToken = firstMatch(own('a'), firstMatch(own('b'), own('c')))
      const target = await Target.start({ router, oauth: spokenOAuth({ verifyToken }) })
      const session = await target.begin('c')
      expect(await target.status('c', session)).to.equal(200)
      for (const as of ['a', 'b']) expect(await target.status(as, session)).to.equal(404)
    })
  })

  it('a call that throws a value that is not an error gets a response, even after another call was canceled', async () => {
    const began = signalled()
    const router: ServerFactory = () => {
      const server = new Server({ name: 'low', version: '1' }, { capabilities: { tools: {} } })
      server.setRequestHandler('tools/call', async ({ params }) => {
        if (params.name === 'throw') throw null
        began.resolve()
        return await new Promise(() => undefined)
      })
      return server
    }
    const target = await Target.start({ router })
    const as = token('ada', READ)
    const session = await target.begin(as)
    const cancelled = target.send(as, legacy(call('hang', {}, 1)), session)
    await began.promise
    await target.send(
      as,
      legacy({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }),
      session,
    )
    expect((await target.send(as, legacy(call('throw', {}, 2)), session)).message.error).not.to.equal(
      undefined,
    )
    expect((await cancelled).status).to.equal(200)
  })
})
