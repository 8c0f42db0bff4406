import { once } from 'node:events'
import { McpServer } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import { exportJWK, generateKeyPair, SignJWT } from 'jose'
import { z } from 'zod'
import { mcpAuth } from '../../../src/express/mcp-auth.ts'
import { mcpHandler } from '../../../src/express/mcp-handler.ts'
import { InMemoryTransportAdapter, KitTelemetry, type TelemetryEnvelope } from '../../../src/index.ts'
import { createMcpAdapter } from '../../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { KitToolError } from '../../../src/mcp/router/tool-error.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import type { VerifyToken } from '../../../src/oauth/options.ts'
import { jwtVerifier } from '../../../src/oauth/verifiers/jwt.ts'
import { ENTRY_POINTS, onExpress, type Served, type Setup, web } from '../../support/mcp/entry-points.ts'
import { oauth, RESOURCE } from '../../support/mcp/notes.ts'
import {
  bearer,
  beginSession,
  call,
  definedOf,
  legacy,
  modern,
  rpc,
  signalled,
  type WireRequest,
} from '../../support/mcp/wire.ts'
import { until } from '../../support/until.ts'

const SECRET = 'secret-of-the-application'

const router = KitMcpRouter.create()
  .context(({ request }) => {
    if (request.headers.has('x-no-context')) throw new Error(SECRET)
    return {}
  })
  .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('refuse', { description: 'x' }, () => {
    throw new KitToolError('no such note')
  })
  .tool('crash', { description: 'x' }, () => {
    throw new TypeError(SECRET)
  })
  .tool('soft', { description: 'x' }, () => ({ content: [{ type: 'text', text: 'x' }], isError: true }))
  .tool('emit', { description: 'x' }, (_args, { session }) => {
    session?.attributes({ tenant: 't1' })
    manager.emit('notes.read', { attributes: { ambient: true } })
    session?.emit('notes.seen')
    return String(session?.getState().sessionId)
  })

const transport = InMemoryTransportAdapter.create()
const telemetry = KitTelemetry.create().withSampling({ debugRate: 1, infoRate: 1 }).addTransport(transport)
const manager = telemetry.build()

/** Returns the events of one request. */
async function recorded(served: Served, request: WireRequest): Promise<TelemetryEnvelope[]> {
  transport.clear()
  await served.send(request)
  return transport.getEvents()
}

const outline = (events: readonly TelemetryEnvelope[]) => events.map(({ name, level }) => `${name} ${level}`)

const ACCEPTED = 'kit.mcp.auth.accepted debug'
const REFUSED = 'kit.mcp.auth.refused warn'
/** The refusal of a request that belongs to a sign-in or a refresh is normal. */
const refusedFor = (reason: string): string =>
  reason === 'missing' || reason === 'expired' ? 'kit.mcp.auth.refused info' : REFUSED
const REQUEST = 'kit.mcp.request.completed info'
const TOOL = 'kit.mcp.tool.completed info'
const TOOL_FAILED = 'kit.mcp.tool.failed error'
const REQUEST_FAILED = 'kit.mcp.request.failed error'

const modernCall = ({ params }: Record<string, unknown>): WireRequest =>
  modern('tools/call', params as Record<string, unknown>)

const servedAsFunction = (given: Setup): Served => web(createMcpAdapter(given).server)

async function using<T>(opening: Served | Promise<Served>, use: (served: Served) => Promise<T>): Promise<T> {
  const served = await opening
  try {
    return await use(served)
  } finally {
    await served.close()
  }
}

const setup = (options: Partial<Setup> = {}): Setup => ({
  router,
  oauth: oauth(),
  telemetry: manager,
  ...options,
})
const last = (events: TelemetryEnvelope[]): TelemetryEnvelope => events.at(-1) as TelemetryEnvelope

describe('mcp: telemetry', () => {
  for (const entryPoint of ENTRY_POINTS) {
    describe(entryPoint.name, () => {
      let served: Served
      before(async () => {
        served = await entryPoint.serve(
          setup({
            oauth: oauth({
              verifyToken: (input) => {
                if (input.bearerToken === 'outage') throw new VerifierUnavailableError(SECRET)
                return oauth().verifyToken(input)
              },
              onVerified: ({ request }) => {
                if (request.headers.has('x-no-hook')) throw new Error(SECRET)
              },
            }),
          }),
        )
      })
      after(async () => served.close())

      it('a call emits accepted, tool, and request events in one session of the user', async () => {
        const events = await recorded(served, legacy(call('echo', { text: 'x' }, 7), bearer('reader')))
        expect(outline(events)).to.deep.equal([ACCEPTED, TOOL, REQUEST])
        expect(new Set(events.map(({ sessionId }) => sessionId)).size).to.equal(1)
        for (const { actor, attributes } of events) {
          expect(actor).to.deep.equal({ type: 'user', id: 'u1' })
          expect(attributes?.duration_ms).to.be.a('number').within(0, 5000)
        }
        const about = {
          'mcp.method.name': 'tools/call',
          'mcp.protocol.version': '2025-11-25',
          'jsonrpc.request.id': '7',
          'gen_ai.tool.name': 'echo',
          'gen_ai.operation.name': 'execute_tool',
        }
        const [accepted, tool, request] = events.map(({ attributes }) => attributes)
        expect(accepted).to.deep.equal({ ...about, duration_ms: accepted?.duration_ms })
        expect(tool).to.deep.equal({ ...about, duration_ms: tool?.duration_ms })
        expect(request).to.deep.equal({
          ...about,
          'http.response.status_code': 200,
          duration_ms: request?.duration_ms,
        })
      })

      it('each request has a new telemetry session', async () => {
        transport.clear()
        await Promise.all([1, 2, 3].map(() => served.send(legacy(rpc('tools/list'), bearer('reader')))))
        const events = transport.getEvents()
        expect(events).to.have.length(6)
        expect(new Set(events.map(({ sessionId }) => sessionId)).size).to.equal(3)
      })

      for (const [reason, authorization] of [
        ['missing', undefined],
        ['missing', 'Basic dXNlcjpwYXNz'],
        ['malformed', 'Bearer'],
        ['malformed', 'Bearer a b'],
        ['malformed', 'Bearer ä'],
        ['malformed', `Bearer ${'x'.repeat(16_385)}`],
        ['invalid', 'Bearer unknown'],
      ] as const) {
        if (entryPoint.wire && (authorization?.length ?? 0) > 16_384) continue // Node itself refuses such a header
        it(`a refusal emits its reason: ${reason} for ${authorization?.slice(0, 20)}`, async () => {
          const events = await recorded(served, legacy(rpc('tools/list'), { authorization }))
          expect(outline(events)).to.deep.equal([refusedFor(reason)])
          const cause = reason === 'invalid' ? ['kit.mcp.auth.invalid.cause'] : []
          expect(events[0]?.attributes).to.have.all.keys('reason', 'duration_ms', ...cause)
          expect(events[0]?.attributes?.reason).to.equal(reason)
        })
      }

      it('a missing scope emits a refusal with the user, and no accepted event', async () => {
        for (const [request, required, granted] of [
          [legacy(call('write'), bearer('reader')), 'mcp:read mcp:write', 'mcp:read'],
          [legacy(rpc('tools/list'), bearer('stranger')), 'mcp:read', ''],
          [modern('tools/call', { name: 'write' }, bearer('reader')), 'mcp:read mcp:write', 'mcp:read'],
          [{ method: 'GET', headers: bearer('stranger') }, 'mcp:read', ''],
        ] as const) {
          const events = await recorded(served, request)
          expect(outline(events)).to.deep.equal([REFUSED])
          expect(events[0]?.attributes).to.include({
            reason: 'insufficient_scope',
            'kit.mcp.auth.scopes.required': required,
            'kit.mcp.auth.scopes.granted': granted,
          })
          expect(events[0]?.actor?.type).to.equal('user')
        }
      })

      it('an unavailable verifier emits an event with its cause', async () => {
        const events = await recorded(served, legacy(rpc('tools/list'), bearer('outage')))
        expect(outline(events)).to.deep.equal(['kit.mcp.auth.unavailable error'])
        expect(events[0]?.error).to.include({ name: 'VerifierUnavailableError', message: SECRET })
        expect(events[0]?.attributes?.duration_ms).to.be.a('number')
      })

      for (const header of ['x-no-context', 'x-no-hook']) {
        it(`a hook of the application that throws emits a failure (${header})`, async () => {
          const events = await recorded(
            served,
            legacy(rpc('tools/list'), { ...bearer('reader'), [header]: '1' }),
          )
          expect(outline(events)).to.deep.equal([REQUEST_FAILED])
          expect(events[0]?.error).to.include({ message: SECRET })
          // `onVerified` is for a user who was verified, `.context()` comes before.
          if (header === 'x-no-hook') expect(events[0]?.actor).to.include({ type: 'user' })
        })
      }

      it('a tool that throws emits a failure with the reference that the client received', async () => {
        transport.clear()
        const { message } = await served.send(legacy(call('crash'), bearer('reader')))
        const events = transport.getEvents()
        expect(outline(events)).to.deep.equal([ACCEPTED, TOOL_FAILED, REQUEST])
        const reference = /Reference: (.*)/.exec(message.result.content[0].text)?.[1]
        expect(reference).to.be.a('string')
        expect(events[1]?.attributes).to.include({
          'error.type': 'tool_error',
          'kit.error.reference': reference,
          'gen_ai.tool.name': 'crash',
        })
        expect(events[1]?.error).to.include({ name: 'TypeError', message: SECRET })
        expect(message.result.content[0].text).not.to.contain(SECRET)
      })

      it('a tool that throws a KitToolError emits a failure without a reference', async () => {
        for (const [tool, error] of [
          ['refuse', { name: 'KitToolError', message: 'no such note' }],
          ['soft', undefined],
        ] as const) {
          const events = await recorded(served, legacy(call(tool), bearer('reader')))
          expect(outline(events)).to.deep.equal([ACCEPTED, TOOL_FAILED, REQUEST])
          for (const { attributes } of events.slice(1))
            expect(attributes).to.include({ 'error.type': 'tool_error' })
          expect(events[1]?.attributes).not.to.have.property('kit.error.reference')
          if (error === undefined) expect(events[1]).not.to.have.property('error')
          else expect(events[1]?.error).to.include(error)
        }
      })

      for (const [title, request, status, method] of [
        ['a body that is no JSON', legacy('{'), 400, undefined],
        ['an unknown method', modern('notes/unknown'), 404, 'notes/unknown'],
        ['PUT', { method: 'PUT' }, 405, undefined],
        ['a foreign content type', legacy('x', { 'content-type': 'text/plain' }), 415, undefined],
      ] as const) {
        // What a parser in front refuses never gets this far.
        if (title === 'a body that is no JSON' && entryPoint.parsed) continue
        it(`${title} with a valid token emits a completed request with its status`, async () => {
          const headers = { ...('headers' in request ? request.headers : {}), ...bearer('reader') }
          const events = await recorded(served, { ...request, headers })
          expect(outline(events)).to.deep.equal([ACCEPTED, REQUEST])
          expect(events[1]?.attributes).to.include({
            'http.response.status_code': status,
            'error.type': String(status),
          })
          expect(events[1]?.attributes?.['mcp.method.name']).to.equal(method)
        })
      }

      it('each message of a batch emits its events', async () => {
        const batch = [call('echo', { text: 'a' }, 1), call('echo', { text: 'b' }, 2)]
        const request = legacy(batch, { ...bearer('reader'), 'mcp-protocol-version': undefined })
        const events = await recorded(served, request)
        expect(outline(events).sort()).to.deep.equal([ACCEPTED, REQUEST, REQUEST, TOOL, TOOL].sort())
        const ids = events
          .filter(({ name }) => name === 'kit.mcp.request.completed')
          .map(({ attributes }) => attributes?.['jsonrpc.request.id'])
        expect(ids).to.deep.equal(['1', '2'])
        expect(last(events).attributes?.['mcp.protocol.version']).to.equal('2025-03-26')
        const accepted = events.find(({ name }) => name === 'kit.mcp.auth.accepted')
        expect(accepted?.attributes).to.have.all.keys('mcp.protocol.version', 'duration_ms')
      })

      it('a request without a message emits its headers only if its token is verified', async () => {
        const get = (token: string) =>
          recorded(served, {
            method: 'PUT',
            headers: { ...bearer(token), 'mcp-protocol-version': '2025-06-18', 'mcp-session-id': 's1' },
          })
        for (const token of ['reader', 'stranger']) {
          for (const { name, attributes } of await get(token))
            expect(attributes, name).to.include({
              'mcp.protocol.version': '2025-06-18',
              'mcp.session.id': 's1',
            })
        }
        for (const token of ['unknown', 'outage']) {
          for (const { attributes } of await get(token))
            expect(attributes).not.to.have.any.keys('mcp.protocol.version', 'mcp.session.id')
        }
      })

      it('events of handlers belong to the session of the request', async () => {
        transport.clear()
        const { message } = await served.send(legacy(call('emit'), bearer('reader')))
        const events = transport.getEvents()
        expect(events.map(({ name }) => name)).to.deep.equal([
          'kit.mcp.auth.accepted',
          'notes.read',
          'notes.seen',
          'kit.mcp.tool.completed',
          'kit.mcp.request.completed',
        ])
        for (const { sessionId, actor } of events) {
          expect(sessionId).to.equal(message.result.content[0].text)
          expect(actor).to.deep.equal({ type: 'user', id: 'u1' })
        }
        expect(events[1]?.attributes).to.deep.equal({ tenant: 't1', ambient: true })
      })

      it('no event contains a token', async () => {
        transport.clear()
        const token = 'reader'.padEnd(40, '-') // no token that is known
        await served.send(legacy(rpc('tools/list'), bearer(token)))
        await served.send(legacy(rpc('tools/list'), { authorization: `Bearer ${token} ${token}` }))
        await served.send(legacy(call('crash'), bearer('reader')))
        await served.send(legacy(call('write'), bearer('reader')))
        const text = JSON.stringify(transport.getEvents())
        expect(transport.getEvents()).to.have.length(6)
        expect(text).not.to.contain(token)
        expect(text).not.to.contain('"reader"').and.not.contain('Bearer reader')
      })
    })
  }

  for (const [title, verified, id] of [
    ['the id of the user', { user: { id: 'u9', sub: 's9' }, clientId: 'c9' }, 'u9'],
    ['a number as id', { user: { id: 9 } }, '9'],
    ['sub of a user without id', { user: { sub: 's9' }, clientId: 'c9' }, 's9'],
    ['the client without a user', { clientId: 'c9' }, 'c9'],
    ['no actor if nothing is known', {}, undefined],
  ] as const) {
    it(`the actor of the events of a request is ${title}`, async () => {
      const verifyToken: VerifyToken = () => ({ valid: true, scopes: ['mcp:read'], ...verified })
      await using(servedAsFunction(setup({ oauth: oauth({ verifyToken }) })), async (served) => {
        for (const { actor } of await recorded(served, legacy(rpc('tools/list'), bearer('x'))))
          expect(actor).to.deep.equal(id === undefined ? undefined : { type: 'user', id })
      })
    })
  }

  it('a refusal of jwtVerifier emits its reason', async () => {
    const { privateKey, publicKey } = await generateKeyPair('ES256')
    const issuer = 'https://auth.example.com'
    const verifyToken = jwtVerifier({ issuer, audience: RESOURCE, publicKey: await exportJWK(publicKey) })
    const now = Math.floor(Date.now() / 1000)
    const token = (claims: Record<string, unknown>) =>
      new SignJWT({ iss: issuer, aud: RESOURCE, exp: now + 60, scope: 'mcp:read', sub: 'u1', ...claims })
        .setProtectedHeader({ alg: 'ES256' })
        .sign(privateKey)
    const table = [
      ['expired', await token({ exp: now - 60 })],
      ['wrong_resource', await token({ aud: 'https://other.example.com' })],
      ['invalid', await token({ iss: 'https://evil.example' })],
      ['invalid', `${(await token({})).slice(0, -4)}AAAA`],
      ['insufficient_scope', await token({ scope: 'mcp:other' })],
    ] as const
    await using(servedAsFunction(setup({ oauth: oauth({ verifyToken }) })), async (served) => {
      for (const [reason, jwt] of table) {
        const events = await recorded(served, legacy(rpc('tools/list'), bearer(jwt)))
        expect(outline(events)).to.deep.equal([refusedFor(reason)])
        expect(events[0]?.attributes?.reason).to.equal(reason)
        expect(JSON.stringify(events)).not.to.contain(jwt)
        expect(events[0]?.actor?.id).to.equal(reason === 'insufficient_scope' ? 'u1' : undefined)
      }
      expect(
        outline(await recorded(served, legacy(rpc('tools/list'), bearer(await token({}))))),
      ).to.deep.equal([ACCEPTED, REQUEST])
    })
  })

  it('no authentication events are emitted if OAuth is disabled', async () => {
    await using(servedAsFunction({ router, telemetry: manager }), async (served) => {
      const events = await recorded(served, legacy(call('echo', { text: 'x' })))
      expect(outline(events)).to.deep.equal([TOOL, REQUEST])
      const failed = await recorded(served, legacy(rpc('tools/list'), { 'x-no-context': '1' }))
      expect(outline(failed)).to.deep.equal([REQUEST_FAILED])
    })
  })

  it('a router function that throws emits a failure', async () => {
    const broken: Setup['router'] = () => {
      throw new Error(SECRET)
    }
    await using(servedAsFunction(setup({ router: broken })), async (served) => {
      const events = await recorded(served, legacy(rpc('tools/list'), bearer('reader')))
      expect(outline(events)).to.deep.equal([ACCEPTED, REQUEST_FAILED])
      expect(last(events).error?.message).to.equal(SECRET)
    })
  })

  it('events have the user if mcpAuth(options) guards an adapter without OAuth', async () => {
    const adapter = createMcpAdapter({ router, telemetry: manager })
    await using(onExpress(mcpAuth(oauth()), mcpHandler(adapter)), async (served) => {
      const events = await recorded(served, legacy(rpc('tools/list'), bearer('reader')))
      expect(outline(events)).to.deep.equal([ACCEPTED, REQUEST])
      expect(events[0]?.actor).to.deep.equal({ type: 'user', id: 'u1' })
    })
  })

  it('a streamed response emits a completed request at its end, also if the client disconnects', async () => {
    const aborted = signalled()
    const streaming = KitMcpRouter.create().tool('stream', { description: 'x' }, async (_args, context) => {
      await context.progress(1)
      await once(context.signal, 'abort')
      aborted.resolve()
    })
    const { server } = createMcpAdapter({ router: streaming, telemetry: manager })
    for (const request of [legacy, modernCall]) {
      transport.clear()
      const { headers = {}, body } = request(
        rpc('tools/call', { name: 'stream', _meta: { progressToken: 1 } }),
      )
      const response = await server(
        new Request('http://localhost/mcp', {
          method: 'POST',
          headers: definedOf(headers),
          body: body as string,
        }),
      )
      const reader = response.body?.getReader()
      await reader?.read()
      expect(outline(transport.getEvents())).to.deep.equal([])
      await reader?.cancel()
      await aborted.promise
      expect(outline(transport.getEvents())).to.include(REQUEST)
    }
  })

  for (const kind of ['router', 'function'] as const) {
    it(`a call in a session of a ${kind} that its client cancels has the code of the cancellation, and its tool has not failed`, async () => {
      const running = signalled()
      const wait = async (signal: AbortSignal): Promise<string> => {
        running.resolve()
        await once(signal, 'abort')
        return 'done'
      }
      const makeServer = (): McpServer => {
        const server = new McpServer({ name: 'existing', version: '1.0.0' })
        server.registerTool('slow', { description: 'x' }, async ({ mcpReq }) => ({
          content: [{ type: 'text', text: await wait(mcpReq.signal) }],
        }))
        return server
      }
      const slow =
        kind === 'function'
          ? makeServer
          : KitMcpRouter.create().tool('slow', { description: 'x' }, (_args, { signal }) => wait(signal))
      await using(servedAsFunction(setup({ router: slow, sessions: true })), async ({ send }) => {
        const session = await beginSession({ send }, bearer('reader'))
        const _id = session['mcp-session-id']
        const headers = { ...bearer('reader'), ...session }
        transport.clear()
        await send(legacy(call('absent', {}, 6), headers))
        expect(outline(transport.getEvents())).not.to.include(TOOL_FAILED)
        const called = send(legacy(call('slow', {}, 7), headers))
        await running.promise
        const canceled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 7 } }
        await send(legacy(canceled, headers))
        await called
        const ended = () =>
          transport.getEvents().filter(({ attributes }) => attributes?.['jsonrpc.request.id'] === '7')
        await until(() => outline(ended()).includes(REQUEST))
        expect(outline(ended())).not.to.include(TOOL_FAILED)
        expect(ended().find(({ name }) => name === 'kit.mcp.request.completed')?.attributes).to.include({
          'error.type': '-32800',
          'rpc.response.status_code': '-32800',
          'http.response.status_code': 200,
        })
      })
    })
  }

  for (const entryPoint of ENTRY_POINTS.filter(({ wire }) => wire)) {
    describe(`${entryPoint.name}, whose client disconnects`, () => {
      /** Sends a request, disconnects when the response begins or when `at` resolves, and waits for its last event. */
      async function disconnect(served: Served, request: WireRequest, at?: Promise<void>): Promise<void> {
        transport.clear()
        const { method = 'POST', headers = {}, body } = request
        const leaving = new AbortController()
        const asked = fetch(new URL('/mcp', served.origin), {
          method,
          headers: definedOf(headers),
          ...(typeof body === 'string' && { body }),
          signal: leaving.signal,
        })
        const begun = asked.then(
          () => undefined,
          () => undefined,
        )
        await (at ?? begun)
        leaving.abort()
        await begun
        await until(() => outline(transport.getEvents()).includes(REQUEST), 1)
      }

      it('a call whose client disconnects emits its events, and those of its tool', async () => {
        const [running, ending] = [signalled(), signalled()]
        const slow = KitMcpRouter.create().tool('slow', { description: 'x' }, async () => {
          running.resolve()
          await ending.promise
          return 'done'
        })
        await using(entryPoint.serve(setup({ router: slow })), async (served) => {
          await disconnect(served, legacy(call('slow'), bearer('reader')), running.promise)
          ending.resolve()
          await until(() => outline(transport.getEvents()).includes(TOOL), 1)
          const events = transport.getEvents()
          expect(outline(events)).to.deep.equal([ACCEPTED, REQUEST, TOOL])
          expect(events[1]?.attributes).to.include({ 'error.type': '499', 'http.response.status_code': 499 })
          expect(new Set(events.map(({ sessionId }) => sessionId)).size).to.equal(1)
          for (const { actor } of events) expect(actor).to.deep.equal({ type: 'user', id: 'u1' })
        })
      })

      it('an event stream emits one completed request', async () => {
        await using(entryPoint.serve(setup()), async (served) => {
          const headers = { accept: 'text/event-stream', ...bearer('reader') }
          await disconnect(served, { method: 'GET', headers })
          expect(outline(transport.getEvents())).to.deep.equal([ACCEPTED, REQUEST])
        })
      })
    })
  }

  it('events of hooks before the tool belong to the session of the request', async () => {
    const emit = (name: string) => manager.emit(name)
    const hooked = setup({
      router: KitMcpRouter.create()
        .context(() => ({ asked: emit('in.context') }))
        .tool('echo', { description: 'x' }, () => 'x'),
      oauth: oauth({
        verifyToken: (input) => {
          emit('in.verify')
          return oauth().verifyToken(input)
        },
        onVerified: () => emit('in.verified'),
      }),
    })
    await using(servedAsFunction(hooked), async (served) => {
      const events = await recorded(served, legacy(call('echo'), bearer('reader')))
      expect(events.map(({ name }) => name).slice(0, 3)).to.deep.equal([
        'in.context',
        'in.verify',
        'in.verified',
      ])
      expect(new Set(events.map(({ sessionId }) => sessionId)).size).to.equal(1)
    })
  })

  it('long strings of a client are shortened', async () => {
    await using(servedAsFunction(setup()), async (served) => {
      const events = await recorded(
        served,
        legacy(rpc('x'.repeat(1_000), {}, 'y'.repeat(1_000)), bearer('reader')),
      )
      expect(last(events).attributes?.['mcp.method.name']).to.equal('x'.repeat(128))
      expect(last(events).attributes?.['jsonrpc.request.id']).to.equal('y'.repeat(128))
    })
  })

  describe('telemetry never changes a response', () => {
    const fail = (): never => {
      throw new Error('telemetry is broken')
    }
    const reject = async (): Promise<never> => fail()
    const HOSTILE: Record<string, () => unknown> = {
      'has a session() that throws': fail,
      'has a session() that rejects': reject,
      'has a session() that gives nothing': () => undefined,
      'has methods that throw': () => ({ actor: fail, emit: fail, run: fail, end: fail }),
      'has methods that reject': () => ({ actor: reject, emit: reject, run: reject, end: reject }),
      'never runs what it should run': () => ({
        run: () => new Promise(() => undefined),
        end: () => undefined,
      }),
      'runs it twice': () => ({
        run: async (fn: () => Promise<unknown>) => [await fn(), await fn()],
        emit: () => undefined,
        end: () => undefined,
      }),
      'runs it later': () => ({
        run: async (fn: () => Promise<unknown>) => {
          await null
          return await fn()
        },
      }),
      'has getters that throw': () => new Proxy({}, { get: fail }),
    }
    const REQUESTS: readonly WireRequest[] = [
      legacy(rpc('tools/list')),
      legacy(rpc('tools/list'), bearer('unknown')),
      legacy(call('echo', { text: 'x' }), bearer('reader')),
      modern('tools/call', { name: 'echo', arguments: { text: 'x' } }, bearer('reader')),
      legacy(call('write'), bearer('reader')),
      legacy(call('refuse'), bearer('reader')),
      legacy('{', bearer('reader')),
      legacy(rpc('tools/list'), { ...bearer('reader'), 'x-no-context': '1' }),
      { method: 'PUT', headers: bearer('reader') },
    ]
    for (const [title, session] of Object.entries(HOSTILE)) {
      it(`a response does not change if the telemetry manager ${title}`, async () => {
        const hostileManager = { session } as unknown as typeof manager
        const unhandled: unknown[] = []
        const onUnhandled = (error: unknown): unknown => unhandled.push(error)
        process.on('unhandledRejection', onUnhandled)
        try {
          for (const entryPoint of ENTRY_POINTS.filter(({ parsed }) => !parsed)) {
            await using(entryPoint.serve({ router, oauth: oauth() }), (plain) =>
              using(entryPoint.serve(setup({ telemetry: hostileManager })), async (hostile) => {
                for (const request of REQUESTS) {
                  const [expected, answer] = [await plain.send(request), await hostile.send(request)]
                  expect(answer.status).to.equal(expected.status)
                  expect(answer.text).to.equal(expected.text)
                }
              }),
            )
          }
          await new Promise((resolve) => setImmediate(resolve))
        } finally {
          process.off('unhandledRejection', onUnhandled)
        }
        expect(unhandled).to.deep.equal([])
      })
    }

    it('a tool runs once even if the manager runs its callback twice', async () => {
      let runs = 0
      const counted = KitMcpRouter.create().tool('count', { description: 'x' }, () => String(++runs))
      const twice = { session: HOSTILE['runs it twice'] } as unknown as typeof manager
      await using(servedAsFunction({ router: counted, telemetry: twice }), async (served) => {
        await served.send(legacy(call('count')))
        expect(runs).to.equal(1)
      })
    })
  })
})
