import { once } from 'node:events'
import { request as httpRequest, type IncomingMessage } from 'node:http'
import { mock } from 'node:test'
import { ElicitRequestSchema as ELICIT_V1 } from '@modelcontextprotocol/sdk/types.js'
import { inputRequired, McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { z } from 'zod'
import { KitMcpRouter, KitTelemetry, mcpHandler, type VerifyToken } from '../../../../src/index.ts'
import {
  type CreateMcpAdapterOptions,
  createMcpAdapter,
  type McpAdapter,
} from '../../../../src/mcp/adapter.ts'
import { createTelemetryRecorder } from '../../../../src/testing/index.ts'
import { CLIENT_KINDS } from '../../../support/mcp/clients.ts'
import { onNode, web } from '../../../support/mcp/entry-points.ts'
import { oauth } from '../../../support/mcp/notes.ts'
import {
  bearer,
  call,
  definedOf,
  firstEvents as events,
  eventsOf,
  initialization,
  LEGACY,
  type Listening,
  legacy,
  modern,
  rpc,
  signalled,
  type WireRequest,
} from '../../../support/mcp/wire.ts'

const router = KitMcpRouter.create()
  .tool('whoami', { description: 'Who asks' }, (_args, { auth }) =>
    String((auth?.user as any)?.id ?? 'unknown'),
  )
  .tool('write', { description: 'Writes', scopes: ['mcp:write'] }, () => 'written')
  .tool('release', { description: 'Lets go of its stream' }, (_args, context) => {
    context.releaseStream()
    return 'sent later'
  })
  .tool('ask', { description: 'Asks for a name' }, (_args, context) => {
    const answer = context.accepted('name', z.object({ name: z.string() }))
    if (answer !== undefined) return `Hello, ${answer.name}`
    return context.inputRequired({
      name: inputRequired.elicit({
        message: 'Your name?',
        requestedSchema: { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] },
      }),
    })
  })
  .tool('capabilities', { description: 'What the client can do' }, (_args, { clientCapabilities }) =>
    JSON.stringify(clientCapabilities ?? null),
  )
  .resource('one', { uri: 'notes://one' }, () => 'x')

const INITIALIZE = initialization({ elicitation: {} })

const as = (token: string, request: WireRequest, headers: Record<string, string> = {}): WireRequest => ({
  ...request,
  headers: { ...request.headers, ...bearer(token), ...headers },
})

/** One server with sessions, and what a test does with it. */
class Host {
  readonly adapter: McpAdapter
  readonly #listening: Listening

  private constructor(adapter: McpAdapter, listening: Listening) {
    this.adapter = adapter
    this.#listening = listening
  }

  static async start(options: Partial<CreateMcpAdapterOptions> = {}): Promise<Host> {
    const adapter = createMcpAdapter({ router, oauth: oauth(), sessions: true, ...options })
    return new Host(adapter, await onNode(mcpHandler(adapter)))
  }

  get origin(): string {
    return this.#listening.origin
  }

  send(token: string, request: WireRequest, headers: Record<string, string> = {}) {
    return this.#listening.send(as(token, request, headers))
  }

  /** Begins a session. @returns its header */
  async begin(token = 'reader'): Promise<{ 'mcp-session-id': string }> {
    const answer = await this.send(token, legacy(INITIALIZE, { 'mcp-protocol-version': undefined }))
    expect(answer.status).to.equal(200)
    return { 'mcp-session-id': answer.headers.get('mcp-session-id') ?? '' }
  }

  /** Opens the event stream of a session. */
  listen(token: string, headers: Record<string, string>): Promise<IncomingMessage> {
    return this.open(token, headers)
  }

  /** Opens the event stream of a session, or that of a request. */
  async open(token: string, headers: Record<string, string>, message?: unknown): Promise<IncomingMessage> {
    const request: WireRequest =
      message === undefined
        ? { headers: { accept: 'text/event-stream', 'mcp-protocol-version': LEGACY } }
        : legacy(message)
    const outgoing = httpRequest(`${this.origin}/mcp`, {
      agent: false,
      method: message === undefined ? 'GET' : 'POST',
      headers: definedOf({ ...request.headers, ...bearer(token), ...headers }),
    })
    outgoing.end(request.body)
    const [response] = (await once(outgoing, 'response')) as [IncomingMessage]
    return response
  }

  close(): Promise<void> {
    return this.#listening.close()
  }
}

describe('mcp: sessions', () => {
  let host: Host
  beforeEach(async () => {
    host = await Host.start()
  })
  afterEach(() => host.close())

  it('a session begins with initialize and serves calls', async () => {
    const session = await host.begin()
    expect(session['mcp-session-id']).to.match(/^[\x21-\x7e]{16,}$/)
    const answer = await host.send('reader', legacy(call('whoami')), session)
    expect(answer.status).to.equal(200)
    expect(answer.message.result.content[0].text).to.equal('u1')
  })

  it('a session accepts notifications', async () => {
    const session = await host.begin()
    const answer = await host.send(
      'reader',
      legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }),
      session,
    )
    expect(answer.status).to.equal(202)
  })

  const WITHOUT: Readonly<Record<string, WireRequest>> = {
    'a call': legacy(call('whoami')),
    'a batch': legacy([call('whoami')], { 'mcp-protocol-version': undefined }),
    'a GET': { method: 'GET', headers: { accept: 'text/event-stream', 'mcp-protocol-version': LEGACY } },
    'a DELETE': { method: 'DELETE', headers: { 'mcp-protocol-version': LEGACY } },
  }
  for (const [what, request] of Object.entries(WITHOUT)) {
    it(`${what} without a session id gets 400`, async () => {
      expect((await host.send('reader', request)).status).to.equal(400)
    })

    it(`${what} with an empty session id gets 400`, async () => {
      expect((await host.send('reader', request, { 'mcp-session-id': '' })).status).to.equal(400)
    })

    it(`${what} with an unknown session id gets 404`, async () => {
      const answer = await host.send('reader', request, { 'mcp-session-id': 'unknown' })
      expect(answer.status).to.equal(404)
    })
  }

  describe('users', () => {
    type Row = readonly [what: string, own: unknown, other: unknown, shared: boolean, client?: string]
    const USERS: readonly Row[] = [
      ['of a user with the same id', { id: 7, name: 'Ada' }, { id: 7, name: 'Ada King' }, true],
      ['of a user with another id', { id: 7 }, { id: 8 }, false],
      ['of a user whose id has another type', { id: 7 }, { id: '7' }, false],
      ['of the same user through another client', { id: 7 }, { id: 7 }, true, 'phone'],
      ['of a user with the same sub', { sub: 'ada' }, { sub: 'ada' }, true],
      ['of a user that is the same string', 'ada', 'ada', true],
      ['of a user that is another string', 'ada', 'bob', false],
      ['of a user with an equal URL as id', { id: new URL('user:ada') }, { id: new URL('user:ada') }, true],
      ['of another user whose id is an object', { id: { n: 1 } }, { id: { n: 2 } }, false],
      ['of the same client without a user', undefined, undefined, true],
      ['of another client without a user', undefined, undefined, false, 'phone'],
    ]
    for (const [what, own, other, shared, client = 'web'] of USERS) {
      it(`a session is ${shared ? 'shared' : 'not shared'} with a request ${what}`, async () => {
        const verifyToken: VerifyToken = ({ bearerToken }) => ({
          valid: true,
          clientId: bearerToken === 'own' ? 'web' : client,
          user: bearerToken === 'own' ? own : other,
          scopes: ['mcp:read'],
        })
        const { server } = createMcpAdapter({ router, oauth: { ...oauth(), verifyToken }, sessions: true })
        const { send } = web(server)
        const begun = await send(as('own', legacy(INITIALIZE, { 'mcp-protocol-version': undefined })))
        const session = { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
        const ping = legacy(rpc('ping'))
        expect((await send(as('own', ping, session))).status).to.equal(200)
        expect((await send(as('other', ping, session))).status).to.equal(shared ? 200 : 404)
      })
    }
  })

  it('a session requires a token and its scopes for every request', async () => {
    const session = await host.begin()
    expect((await host.send('unknown', legacy(call('whoami')), session)).status).to.equal(401)
    expect((await host.send('reader', legacy(call('write')), session)).status).to.equal(403)
  })

  it('a handler in a session gets the token of the current request', async () => {
    let granted = ['mcp:read']
    const own = await Host.start({
      router: KitMcpRouter.create().tool('scopes', { description: 'x' }, (_args, { auth }) =>
        (auth?.scopes ?? []).join(' '),
      ),
      oauth: oauth({ verifyToken: () => ({ valid: true, user: { id: 'u1' }, scopes: granted }) }),
    })
    const session = await own.begin('a')
    const textOf = async () =>
      (await own.send('b', legacy(call('scopes')), session)).message.result.content[0].text
    expect(await textOf()).to.equal('mcp:read')
    granted = ['mcp:read', 'mcp:write']
    expect(await textOf()).to.equal('mcp:read mcp:write')
    await own.close()
  })

  it('DELETE ends a session', async () => {
    const session = await host.begin()
    const stream = await host.listen('reader', session)
    const closed = once(stream, 'end')
    stream.resume()
    const gone: WireRequest = { method: 'DELETE', headers: { 'mcp-protocol-version': LEGACY } }
    expect((await host.send('reader', gone, session)).status).to.equal(200)
    await closed
    expect((await host.send('reader', legacy(call('whoami')), session)).status).to.equal(404)
    expect((await host.send('reader', gone, session)).status).to.equal(404)
  })

  it('a session stream carries list changes and updates of subscribed resources', async () => {
    const [one, other] = [await host.begin(), await host.begin()]
    await host.send('reader', legacy(rpc('resources/subscribe', { uri: 'notes://one' })), one)
    const streams = [await host.listen('reader', one), await host.listen('reader', other)] as const
    host.adapter.notify.resourceUpdated('notes://one')
    host.adapter.notify.toolsChanged()
    const methods = (received: any[]) => received.map(({ method }) => method.slice('notifications/'.length))
    expect(methods(await events(streams[0], 2))).to.deep.equal(['resources/updated', 'tools/list_changed'])
    expect(methods(await events(streams[1], 1))).to.deep.equal(['tools/list_changed'])
  })

  it('a client that resumes a stream receives the events it missed', async () => {
    const session = await host.begin()
    const first = await host.send('reader', legacy(call('release')), session)
    const lastEventId = /^id: (\S+)/m.exec(first.text)?.[1] ?? ''
    expect(first.messages).to.deep.equal([])
    const stream = await host.listen('reader', { ...session, 'last-event-id': lastEventId })
    const [answer] = await events(stream, 1)
    expect(answer.result.content[0].text).to.equal('sent later')
  })

  it('a call that takes long begins its stream at once, and its result can be read again, but not after it', async () => {
    const finished = signalled<string>()
    const own = await Host.start({
      router: KitMcpRouter.create().tool('wait', { description: 'Waits' }, () => finished.promise),
    })
    const session = await own.begin()
    const response = await own.open('reader', session, call('wait'))
    const [chunk] = (await once(response, 'data')) as [Buffer]
    expect(eventsOf(String(chunk))).to.deep.equal([])
    response.destroy()
    finished.resolve('late')
    const idIn = (text: string) => [...text.matchAll(/^id: (\S+)$/gm)].at(-1)?.[1] ?? ''
    const again = await own.listen('reader', { ...session, 'last-event-id': idIn(String(chunk)) })
    const text = (await again.setEncoding('utf8').toArray()).join('')
    expect(eventsOf(text)[0].result.content[0].text).to.equal('late')
    const nothing = await own.listen('reader', { ...session, 'last-event-id': idIn(text) })
    expect([nothing.statusCode, await nothing.toArray()]).to.deep.equal([200, []])
    await own.close()
  })

  it('a session does not replay events of another session', async () => {
    const [one, other] = [await host.begin(), await host.begin()]
    const answer = await host.send('reader', legacy(call('whoami')), one)
    const lastEventId = /^id: (\S+)/m.exec(answer.text)?.[1] ?? ''
    const stream = await host.listen('reader', { ...other, 'last-event-id': lastEventId })
    expect(stream.statusCode).to.equal(400)
  })

  it('clients of 2026-07-28 do not get a session', async () => {
    const answer = await host.send('reader', modern('tools/call', { name: 'whoami' }))
    expect(answer.status).to.equal(200)
    expect(answer.headers.get('mcp-session-id')).to.equal(null)
    const get: WireRequest = {
      method: 'GET',
      headers: { accept: 'text/event-stream', 'mcp-protocol-version': '2026-07-28' },
    }
    expect((await host.send('reader', get)).status).to.equal(405)
  })

  it('a session beyond max ends the one that is idle longest', async () => {
    const own = await Host.start({ sessions: { max: 2 } })
    const [first, second] = [await own.begin(), await own.begin()]
    // The first has been used after the second.
    expect((await own.send('reader', legacy(call('whoami')), first)).status).to.equal(200)
    const third = await own.begin()
    const status = async (session: Record<string, string>) =>
      (await own.send('reader', legacy(call('whoami')), session)).status
    expect([await status(first), await status(second), await status(third)]).to.deep.equal([200, 404, 200])
    await own.close()
  })

  for (const { name, revision, connect } of CLIENT_KINDS.filter(({ revision }) => revision === LEGACY)) {
    describe(`with the ${name}`, () => {
      it('a client calls tools in a session and is asked for input', async () => {
        const asked = signalled<string>()
        const { client, close } = await connect(host.origin, {
          token: 'reader',
          capabilities: { elicitation: {} },
          prepare: (made) => {
            const answer = async (request: any) => {
              asked.resolve(request.params.message)
              return { action: 'accept', content: { name: 'Ada' } }
            }
            if (name.startsWith('v1')) made.setRequestHandler(ELICIT_V1, answer)
            else made.setRequestHandler('elicitation/create', answer)
          },
        })
        const result = await client.callTool({ name: 'ask', arguments: {} })
        expect(await asked.promise).to.equal('Your name?')
        expect(result.content[0].text).to.equal('Hello, Ada')
        const capabilities = await client.callTool({ name: 'capabilities', arguments: {} })
        expect(JSON.parse(capabilities.content[0].text)).to.have.property('elicitation')
        expect(revision).to.equal(LEGACY)
        await close()
      })
    })
  }

  it('a session keeps a server of the official SDK', async () => {
    let made = 0
    const own = await Host.start({
      router: () => {
        made++
        let calls = 0
        const server = new McpServer({ name: 'counting', version: '1' })
        server.registerTool('count', { description: 'Counts' }, () => ({
          content: [{ type: 'text', text: String(++calls) }],
        }))
        return server
      },
    })
    const session = await own.begin()
    for (const count of ['1', '2', '3']) {
      const answer = await own.send('reader', legacy(call('count')), session)
      expect(answer.message.result.content[0].text).to.equal(count)
    }
    expect(made).to.equal(1)
    await own.close()
  })

  it('a session does not begin if its server cannot be created', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().addTransport(recorder).build()
    const own = await Host.start({
      telemetry,
      router: () => {
        throw new Error('no server today')
      },
    })
    const answer = await own.send('reader', legacy(INITIALIZE, { 'mcp-protocol-version': undefined }))
    expect(answer.status).to.equal(500)
    expect(answer.message.error).to.deep.equal({ code: -32_603, message: 'Internal server error' })
    expect(answer.headers.get('mcp-session-id')).to.equal(null)
    recorder.expectEvent('kit.mcp.request.failed', { error: { message: 'no server today' } })
    await own.close()
  })

  it('a client can cancel a call in a session', async () => {
    const [began, aborted] = [signalled(), signalled()]
    const own = await Host.start({
      router: KitMcpRouter.create().tool('wait', { description: 'Waits' }, async (_args, { signal }) => {
        signal.addEventListener('abort', () => aborted.resolve())
        began.resolve()
        await aborted.promise
      }),
    })
    const session = await own.begin()
    const sent = own.send('reader', legacy(call('wait', {}, 7)), session)
    await began.promise
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
    expect((await own.send('reader', legacy(cancelled), session)).status).to.equal(202)
    await aborted.promise
    expect((await sent).message.error).to.deep.equal({ code: -32_800, message: 'The request was canceled' })
    await own.close()
  })

  for (const [who, user, max] of [
    ['a user', 'reader', 131_072],
    ['a client without a token', undefined, 8_192],
  ] as const)
    for (const [characters, character] of [
      ['ASCII', 'x'],
      ['two-byte', 'é'],
      ['three-byte', '中'],
    ] as const)
      it(`initialize of ${who} may have ${max} bytes of ${characters} characters, and no more`, async () => {
        const adapter = createMcpAdapter({
          router,
          oauth: { ...oauth(), anonymous: true },
          sessions: true,
        })
        const own = await onNode(mcpHandler(adapter))
        const ofSize = (bytes: number) => {
          const made = (name: string) => JSON.stringify(initialization({}, { name, version: '1' }))
          const room = bytes - made('').length
          const size = Buffer.byteLength(character)
          return made('x'.repeat(room % size) + character.repeat(Math.floor(room / size)))
        }
        for (const [bytes, expected] of [
          [max, 200],
          [max + 1, 400],
        ] as const) {
          const request = legacy(ofSize(bytes), { 'mcp-protocol-version': undefined })
          const answer = await own.send(user === undefined ? request : as(user, request))
          expect(answer.status).to.equal(expected)
          if (expected === 400)
            expect(answer.message).to.deep.equal({
              jsonrpc: '2.0',
              error: { code: -32_602, message: `Invalid params: initialize must have at most ${max} bytes` },
              id: null,
            })
        }
        await own.close()
      })

  it('a session that was used within idleTimeoutMs is kept, and an idle one ends', async () => {
    mock.timers.enable({ apis: ['setInterval', 'Date'] })
    try {
      const { server } = createMcpAdapter({ router, oauth: oauth(), sessions: { idleTimeoutMs: 100_000 } })
      const send = (request: WireRequest) => web(server).send(request)
      const begin = async () => {
        const begun = await send(as('reader', legacy(INITIALIZE, { 'mcp-protocol-version': undefined })))
        return { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
      }
      const status = async (session: Record<string, string>) =>
        (await send(as('reader', legacy(rpc('ping')), session))).status
      const [used, idle] = [await begin(), await begin()]
      mock.timers.tick(60_000)
      expect(await status(used)).to.equal(200)
      mock.timers.tick(60_000)
      expect([await status(used), await status(idle)]).to.deep.equal([200, 404])
    } finally {
      mock.timers.reset()
    }
  })

  it('the timer that looks for idle sessions stops when there are none', async () => {
    mock.timers.enable({ apis: ['setInterval', 'Date'] })
    const [set, clear] = [mock.method(globalThis, 'setInterval'), mock.method(globalThis, 'clearInterval')]
    try {
      const { server } = createMcpAdapter({ router, oauth: oauth(), sessions: { idleTimeoutMs: 4_321 } })
      const begin = () =>
        web(server).send(as('reader', legacy(INITIALIZE, { 'mcp-protocol-version': undefined })))
      const timers = () => set.mock.calls.filter(({ arguments: [, ms] }) => ms === 4_321)
      await begin()
      await begin()
      expect(timers()).to.have.length(1)
      mock.timers.tick(4_321)
      expect(clear.mock.calls.map(({ arguments: [timer] }) => timer)).to.include(timers()[0]?.result)
      await begin()
      expect(timers()).to.have.length(2)
    } finally {
      mock.restoreAll()
      mock.timers.reset()
    }
  })

  it('a session that does not begin leaves no listener at the event bus', async () => {
    let listeners = 0
    const eventBus = {
      publish: () => {},
      subscribe: () => {
        listeners++
        return () => void listeners--
      },
    }
    let fails = false
    const failing = () => {
      if (fails) throw new Error('no server today')
      return new McpServer({ name: 'failing', version: '1' })
    }
    const own = await Host.start({ eventBus, router: failing })
    await own.begin()
    const before = listeners
    const clientInfo = { name: 'x'.repeat(131_072), version: '1' }
    const tooLong = initialization({}, clientInfo)
    expect(
      (await own.send('reader', legacy(tooLong, { 'mcp-protocol-version': undefined }))).status,
    ).to.equal(400)
    expect(listeners).to.equal(before)
    fails = true
    const initialize = legacy(INITIALIZE, { 'mcp-protocol-version': undefined })
    expect((await own.send('reader', initialize)).status).to.equal(500)
    expect(listeners).to.equal(before)
    await own.close()
  })

  it('a session ends when the application closes its server', async () => {
    const closed = signalled()
    const own = await Host.start({
      router: () => {
        const server = new McpServer({ name: 'closing', version: '1' })
        server.registerTool('close', { description: 'Closes the server' }, () => {
          setImmediate(() => server.close().then(() => closed.resolve()))
          return { content: [] }
        })
        return server
      },
    })
    const session = await own.begin()
    expect((await own.send('reader', legacy(call('close')), session)).status).to.equal(200)
    await closed.promise
    expect((await own.send('reader', legacy(call('close')), session)).status).to.equal(404)
    await own.close()
  })

  it('a session accepts only the revisions that its server supports', async () => {
    const own = await Host.start({
      router: () =>
        new McpServer({ name: 'picky', version: '1' }, { supportedProtocolVersions: [LEGACY, '2025-06-18'] }),
    })
    const session = await own.begin()
    const status = async (revision: string) =>
      (await own.send('reader', legacy(rpc('ping'), { 'mcp-protocol-version': revision }), session)).status
    expect([await status('2025-06-18'), await status('2025-03-26')]).to.deep.equal([200, 400])
    await own.close()
  })

  describe('with a stream', () => {
    const IDLE_MS = 100_000
    let ask: (method: string, headers?: Record<string, string>, init?: RequestInit) => Promise<Response>

    beforeEach(() => {
      mock.timers.enable({ apis: ['setInterval', 'Date'] })
      const { server } = createMcpAdapter({ router, oauth: oauth(), sessions: { idleTimeoutMs: IDLE_MS } })
      const own = definedOf(as('reader', legacy({})).headers ?? {})
      ask = async (method, headers, init) => {
        const url = 'http://localhost:3000/mcp'
        return await server(new Request(url, { method, headers: { ...own, ...headers }, ...init }))
      }
    })
    afterEach(() => mock.timers.reset())

    async function begin(): Promise<Record<string, string>> {
      const begun = await ask('POST', {}, { body: JSON.stringify(INITIALIZE) })
      await begun.text()
      return { 'mcp-session-id': begun.headers.get('mcp-session-id') ?? '' }
    }

    async function status(session: Record<string, string>): Promise<number> {
      const response = await ask('POST', session, { body: JSON.stringify(rpc('ping')) })
      await response.text()
      return response.status
    }

    it('an idle session ends, but not while a stream is open', async () => {
      const [idle, busy] = [await begin(), await begin()]
      const stream = await ask('GET', busy)
      mock.timers.tick(2 * IDLE_MS)
      expect([await status(idle), await status(busy)]).to.deep.equal([404, 200])
      await stream.body?.cancel()
      mock.timers.tick(2 * IDLE_MS)
      expect(await status(busy)).to.equal(404)
    })

    it('a session is idle after its web-standard client has disconnected, even if the host keeps the stream', async () => {
      const session = await begin()
      const client = new AbortController()
      const stream = await ask('GET', session, { signal: client.signal })
      expect(stream.status).to.equal(200)
      client.abort()
      expect(await status(session)).to.equal(200)
      mock.timers.tick(2 * IDLE_MS)
      expect(await status(session)).to.equal(404)
    })
  })

  it('every request of a session is recorded in telemetry', async () => {
    const recorder = createTelemetryRecorder()
    const telemetry = KitTelemetry.create().withSampling({ infoRate: 1 }).addTransport(recorder).build()
    const own = await Host.start({ telemetry })
    const session = await own.begin()
    await own.send('reader', legacy(call('whoami', {}, 7)), session)
    await own.send('reader', legacy(call('nothing', {}, 8)), session)
    recorder.expectEvent('kit.mcp.tool.completed', {
      attributes: { 'mcp.session.id': session['mcp-session-id'], 'jsonrpc.request.id': '7' },
    })
    recorder.expectEvent('kit.mcp.request.completed', {
      attributes: { 'jsonrpc.request.id': '8', 'rpc.response.status_code': '-32602' },
    })
    await own.close()
  })
})
