import { once } from 'node:events'
import { createServer, type Server as HttpServer, request as httpRequest } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { spokenOAuth, token } from '../support/attacks/spoken-tokens.ts'
import { ENTRY_POINTS, serving } from '../support/mcp/entry-points.ts'
import {
  call,
  type HeaderFields,
  initialization,
  legacy,
  modern,
  rpc,
  type WireRequest,
} from '../support/mcp/wire.ts'

/** The operations that ran, and whether each had a token. */
const ran: string[] = []
/** The calls of the verifier and of `onVerified`. */
const verified: string[] = []

function record(name: string): (...args: any[]) => string {
  return (...args) => {
    ran.push(`${name}${args.at(-1).auth === undefined ? '' : ' with a token'}`)
    return name
  }
}

const router = KitMcpRouter.create()
  .tool('search', { description: 'x', public: true }, record('search'))
  .tool('save', { description: 'x' }, record('save'))
  .tool('wipe', { description: 'x', scopes: ['mcp:admin'] }, record('wipe'))
  .prompt(
    'hello',
    { public: true, input: z.object({ to: z.string() }), complete: { to: () => ['ada'] } },
    record('hello'),
  )
  .prompt(
    'secret',
    { input: z.object({ to: z.string() }), complete: { to: () => ['ada'] } },
    record('secret'),
  )
  .resource('about', { uri: 'docs://about', public: true }, record('about'))
  .resource('private', { uri: 'docs://private' }, record('private'))
  .resource('covered', { uri: 'vault://open', public: true }, record('covered'))
  .resourceTemplate('vault', { uriTemplate: 'vault://{id}', scopes: ['mcp:admin'] }, record('vault'))
  .resourceTemplate(
    'pages',
    { uriTemplate: 'docs://pages/{id}', public: true, complete: { id: () => ['1'] } },
    record('pages'),
  )
  .resource('page', { uri: 'docs://pages/hidden' }, record('hidden'))
  .resourceTemplate(
    'locked',
    { uriTemplate: 'docs://pages/locked{rest}', scopes: ['mcp:admin'] },
    record('locked'),
  )
  .resourceTemplate('notes', { uriTemplate: 'notes://{id}', complete: { id: () => ['1'] } }, record('notes'))

const oauth = (anonymous = true) => {
  const { verifyToken, ...others } = spokenOAuth({ scopes: ['mcp:read'], anonymous })
  return {
    ...others,
    verifyToken: (input: Parameters<typeof verifyToken>[0]) => {
      if (input.bearerToken === 'bad') return undefined
      if (input.bearerToken !== undefined) verified.push('verifyToken')
      return verifyToken(input)
    },
    onVerified: () => {
      verified.push('onVerified')
    },
  }
}

const USER = { authorization: `Bearer ${token('ada', ['mcp:read'])}` }
const OTHER = { authorization: `Bearer ${token('eve', ['mcp:read'])}` }
const WEAK = { authorization: `Bearer ${token('ada', [])}` }

const read = (uri: unknown, id: unknown = 1) => rpc('resources/read', { uri }, id)
const initialize = initialization()
const batch = (...messages: unknown[]) => legacy(messages, { 'mcp-protocol-version': '2025-03-26' })
const complete = (ref: object) => rpc('completion/complete', { ref, argument: { name: 'id', value: '' } })
const readModern = (uri: string, headers: HeaderFields = {}) =>
  modern('resources/read', { uri }, { 'mcp-name': uri, ...headers })

/** Requests without a valid token that must be refused without running anything. */
const REFUSED: readonly (readonly [attack: string, request: WireRequest])[] = [
  ['a tool that is not public', legacy(call('save'))],
  ['a tool with scopes', legacy(call('wipe'))],
  ['a tool that is not public, in revision 2026-07-28', modern('tools/call', { name: 'save' })],
  ['an unknown tool', legacy(call('nothing'))],
  ['a tool named __proto__', legacy(call('__proto__'))],
  ['a tool named constructor', legacy(call('constructor'))],
  ['a tool in other case', legacy(call('Search'))],
  ['a tool with a space behind its name', legacy(call('search '))],
  ['a tool whose name is a list', legacy(rpc('tools/call', { name: ['search'] }))],
  ['a tool call without parameters', legacy(rpc('tools/call'))],
  [
    'a tool call whose second name is not public',
    legacy('{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"search","name":"save"}}'),
  ],
  [
    'a body whose second method is a call',
    legacy('{"jsonrpc":"2.0","id":1,"method":"tools/list","method":"tools/call","params":{"name":"save"}}'),
  ],
  ['a prompt that is not public', legacy(rpc('prompts/get', { name: 'secret', arguments: { to: 'x' } }))],
  ['a tool name as a prompt', legacy(rpc('prompts/get', { name: 'search' }))],
  ['a batch of a public and a private call', batch(call('search', {}, 1), call('save', {}, 2))],
  ['a batch of a list and a private call', batch(rpc('tools/list'), call('save', {}, 2))],
  ['a batch with an array inside', batch([call('save')], rpc('tools/list'))],
  ['a batch with null', batch(null, rpc('tools/list'))],
  ['a batch with a number', batch(rpc('tools/list'), 1)],
  ['an empty batch', batch()],
  [
    'a batch with a notification of another kind',
    batch(rpc('tools/list'), { jsonrpc: '2.0', method: 'notifications/roots/list_changed' }),
  ],
  ['a batch in a revision without batches', legacy([rpc('tools/list'), call('search', {}, 2)])],
  [
    'headers that name a public tool before a private body',
    modern('tools/call', { name: 'save' }, { 'mcp-name': 'search' }),
  ],
  [
    'headers that name a list before a private body',
    modern('tools/call', { name: 'save' }, { 'mcp-method': 'tools/list' }),
  ],
  [
    'headers that name a list before a private body, in revision 2025-11-25',
    legacy(call('save'), { 'mcp-method': 'tools/list' }),
  ],
  [
    'headers that name a public URI before a private body',
    readModern('docs://private', { 'mcp-name': 'docs://about' }),
  ],
  ['a resource that is not public', legacy(read('docs://private'))],
  ['an unknown resource', legacy(read('docs://unknown'))],
  ['a public resource that a template with scopes matches', legacy(read('vault://open'))],
  ['a resource among the URIs of a public template', legacy(read('docs://pages/hidden'))],
  ['a percent-encoded letter of that resource', legacy(read('docs://pages/%68idden'))],
  ['a letter of that resource encoded twice', legacy(read('docs://pages/%2568idden'))],
  ['a letter of that resource encoded three times', legacy(read('docs://pages/%252568idden'))],
  ['a dot segment to that resource', legacy(read('docs://pages/x/../hidden'))],
  ['an encoded dot segment to that resource', legacy(read('docs://pages/%2e/hidden'))],
  ['a fragment behind that resource', legacy(read('docs://pages/hidden#x'))],
  ['an empty query behind that resource', legacy(read('docs://pages/hidden?'))],
  ['a template with scopes inside a public template', legacy(read('docs://pages/lockedA'))],
  ['an encoded name of a template with scopes', legacy(read('docs://pages/%6Cocked%2541'))],
  ['a URI with a tab', legacy(read('docs://about\t'))],
  ['a URI that is not a string', legacy(read(['docs://about']))],
  ['a URI of 20 000 characters', legacy(read(`docs://pages/${'a'.repeat(20_000)}`))],
  ['a resource of a template that is not public', legacy(read('notes://1'))],
  ['a completion of a private prompt', legacy(complete({ type: 'ref/prompt', name: 'secret' }))],
  ['a completion of a private template', legacy(complete({ type: 'ref/resource', uri: 'notes://{id}' }))],
  ['a completion of an unknown template', legacy(complete({ type: 'ref/resource', uri: 'docs://{x}' }))],
  [
    'a completion of an unknown kind',
    legacy(complete({ type: 'ref/tool', name: 'hello', uri: 'docs://about' })),
  ],
  ['a completion without a reference', legacy(rpc('completion/complete', {}))],
  ['a subscription to a public resource', legacy(rpc('resources/subscribe', { uri: 'docs://about' }))],
  ['the end of a subscription', legacy(rpc('resources/unsubscribe', { uri: 'docs://about' }))],
  ['subscriptions/listen', modern('subscriptions/listen', { notifications: { toolsListChanged: true } })],
  ['a log level', legacy(rpc('logging/setLevel', { level: 'debug' }))],
  ['a method in other case', legacy(rpc('Tools/List'))],
  ['a method with a space', legacy(rpc('tools/list '))],
  ['the method __proto__', legacy('{"jsonrpc":"2.0","id":1,"method":"__proto__"}')],
  ['a method in __proto__', legacy('{"jsonrpc":"2.0","id":1,"__proto__":{"method":"tools/list"}}')],
  ['a response without a request', legacy({ jsonrpc: '2.0', id: 1, result: {} })],
  ['an error without a request', legacy({ jsonrpc: '2.0', id: 1, error: { code: 1, message: 'x' } })],
  ['a list that is a response, too', legacy({ ...rpc('tools/list'), result: {} })],
  ['a cancellation', legacy({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } })],
  ['a progress notification', legacy({ jsonrpc: '2.0', method: 'notifications/progress', params: {} })],
  ['a body that is not JSON', legacy('{"jsonrpc"')],
  ['a body of another type', legacy(rpc('tools/list'), { 'content-type': 'text/plain' })],
  ['a body nested 200 levels deep', legacy('['.repeat(200) + ']'.repeat(200))],
  ['GET', { method: 'GET', headers: { accept: 'text/event-stream' } }],
  [
    'GET with headers that name a list',
    { method: 'GET', headers: { accept: 'text/event-stream', 'mcp-method': 'tools/list' } },
  ],
  ['DELETE', { method: 'DELETE' }],
  ['a list with PUT', { ...legacy(rpc('tools/list')), method: 'PUT' }],
  ['a bad token for a public tool', legacy(call('search'), { authorization: 'Bearer bad' })],
  ['a bad token for a list', legacy(rpc('tools/list'), { authorization: 'Bearer bad' })],
  ['an empty Authorization header', legacy(rpc('tools/list'), { authorization: '' })],
  ['Basic credentials for a list', legacy(rpc('tools/list'), { authorization: 'Basic YTpi' })],
  ['a Bearer scheme without a token', legacy(rpc('tools/list'), { authorization: 'Bearer' })],
]

for (const entry of ENTRY_POINTS) {
  describe(`public operations: ${entry.name}`, () => {
    const served = serving(() => entry.serve({ router, oauth: oauth() }))

    for (const [attack, request] of REFUSED)
      it(`requests without a token at ${entry.name}: ${attack}: 401, and nothing runs`, async () => {
        ran.length = 0
        const answer = await served().send(request)
        // A body parser in front responds to a body that it cannot read.
        if (entry.parsed && attack === 'a body that is not JSON') expect(answer.status).to.equal(400)
        else expect(answer.status, answer.text).to.equal(401)
        expect(answer.headers.get('www-authenticate') ?? 'Bearer ').to.match(/^Bearer /)
        expect(ran).to.deep.equal([])
      })
  })
}

/** Requests without a token that are served. */
const ADMITTED: readonly (readonly [what: string, request: WireRequest, runs: readonly string[]])[] = [
  ['initialize', legacy(initialize, { 'mcp-protocol-version': undefined }), []],
  ['notifications/initialized', legacy({ jsonrpc: '2.0', method: 'notifications/initialized' }), []],
  ['ping', legacy(rpc('ping')), []],
  ['server/discover', modern('server/discover'), []],
  ['a list of tools', legacy(rpc('tools/list')), []],
  ['a list of resources in revision 2026-07-28', modern('resources/list'), []],
  ['a public tool', legacy(call('search')), ['search']],
  ['a public tool in revision 2026-07-28', modern('tools/call', { name: 'search' }), ['search']],
  ['a public prompt', legacy(rpc('prompts/get', { name: 'hello', arguments: { to: 'x' } })), ['hello']],
  ['a public resource', legacy(read('docs://about')), ['about']],
  ['a public resource in revision 2026-07-28', readModern('docs://about'), ['about']],
  ['a public resource with an encoded letter', legacy(read('docs://%61bout')), ['about']],
  ['a URI of a public template', legacy(read('docs://pages/1')), ['pages']],
  [
    'a completion of a public template',
    legacy(complete({ type: 'ref/resource', uri: 'docs://pages/{id}' })),
    [],
  ],
  ['a batch of public operations', batch(call('search', {}, 1), rpc('tools/list', {}, 2)), ['search']],
]

for (const entry of ENTRY_POINTS.filter(({ auth }) => !auth)) {
  describe(`public operations without a token: ${entry.name}`, () => {
    const served = serving(() => entry.serve({ router, oauth: oauth() }))
    const closed = serving(() => entry.serve({ router, oauth: oauth(false) }))

    for (const [what, request, runs] of ADMITTED) {
      it(`${entry.name} serves ${what} without a token and does not call the verifier`, async () => {
        ran.length = 0
        verified.length = 0
        const { status, text } = await served().send(request)
        expect(status, text).to.be.oneOf([200, 202])
        expect(text).not.to.include('"error"')
        expect({ ran, verified }).to.deep.equal({ ran: runs, verified: [] })
      })

      it(`${entry.name} refuses ${what} without a token if anonymous is not set`, async () => {
        expect((await closed().send(request)).status).to.equal(401)
      })
    }

    it(`${entry.name} verifies the token of a call of a public tool`, async () => {
      ran.length = 0
      verified.length = 0
      expect((await served().send(legacy(call('search'), USER))).status).to.equal(200)
      expect(ran).to.deep.equal(['search with a token'])
      expect(verified).to.deep.equal(['verifyToken', 'onVerified'])
    })

    it(`${entry.name} refuses a token without the scopes of the endpoint for a public tool`, async () => {
      expect((await served().send(legacy(call('search'), WEAK))).status).to.equal(403)
    })

    it(`${entry.name} names the scopes of the operation in the challenge for a missing token`, async () => {
      const { headers } = await served().send(legacy(call('wipe')))
      expect(headers.get('www-authenticate')).to.include('scope="mcp:read mcp:admin"')
    })

    it(`${entry.name} responds to a preflight without a token`, async () => {
      const headers = { origin: 'http://localhost:3000', 'access-control-request-method': 'POST' }
      expect((await served().send({ method: 'OPTIONS', headers })).status).to.equal(204)
    })
  })
}

for (const entry of ENTRY_POINTS.filter(({ auth }) => auth)) {
  describe(`public operations behind mcpAuth: ${entry.name}`, () => {
    const served = serving(() => entry.serve({ router, oauth: oauth() }))

    for (const [what, request, runs] of ADMITTED) {
      const isVisible =
        entry.parsed || (request.headers?.['mcp-method'] !== undefined && !what.startsWith('a completion'))
      it(`${entry.name} ${isVisible ? 'serves' : 'requires a token for'} ${what}`, async () => {
        ran.length = 0
        const { status } = await served().send(request)
        if (isVisible) expect(status).to.be.oneOf([200, 202])
        else expect(status).to.equal(401)
        expect(ran).to.deep.equal(isVisible ? runs : [])
      })
    }
  })
}

describe('a second Authorization header', () => {
  let server: HttpServer
  before(async () => {
    server = createServer(mcpHandler(createMcpAdapter({ router, oauth: oauth() })))
    await once(server.listen(0, '127.0.0.1'), 'listening')
  })
  after(async () => {
    server.close()
    await once(server, 'close')
  })

  for (const values of [
    ['', `Bearer ${token('ada', ['mcp:read'])}`],
    ['', ''],
    ['Basic x', ''],
  ]) {
    it(`a list with the Authorization headers ${JSON.stringify(values.map((value) => value.slice(0, 6)))} is refused`, async () => {
      const { headers, body } = legacy(rpc('tools/list'))
      const outgoing = httpRequest({
        port: (server.address() as AddressInfo).port,
        method: 'POST',
        path: '/mcp',
        agent: false,
        headers: { ...(headers as Record<string, string>), authorization: values as never },
      })
      outgoing.end(body)
      const [response] = await once(outgoing, 'response')
      response.resume()
      expect(response.statusCode).to.equal(401)
    })
  }
})

for (const entry of ENTRY_POINTS.filter(({ auth }) => !auth)) {
  describe(`a session that was opened without a token: ${entry.name}`, () => {
    const roomy = serving(() => entry.serve({ router, oauth: oauth(), sessions: true }))
    const full = serving(() => entry.serve({ router, oauth: oauth(), sessions: { max: 3, maxPerOwner: 3 } }))
    let served = roomy
    beforeEach(() => {
      served = roomy
    })

    const open = async (headers: HeaderFields = {}) => {
      const { status, headers: received } = await served().send(
        legacy(initialize, { 'mcp-protocol-version': undefined, ...headers }),
      )
      return { status, session: { 'mcp-session-id': received.get('mcp-session-id') ?? 'none' } }
    }
    const list = async (session: HeaderFields, headers: HeaderFields = {}) =>
      (await served().send(legacy(rpc('tools/list'), { ...session, ...headers }))).status

    it(`${entry.name} serves a session to its anonymous client, and then to the first user only`, async () => {
      const { session } = await open()
      expect(await list(session)).to.equal(200)
      expect(await list(session, USER)).to.equal(200)
      expect(await list(session), 'without a token').to.equal(404)
      expect(await list(session, OTHER), 'of another user').to.equal(404)
      expect(await list(session, USER), 'of the same user').to.equal(200)
    })

    it(`${entry.name} does not give an anonymous session to a user whose token is refused or lacks scopes`, async () => {
      const { session } = await open()
      expect(await list(session, { authorization: 'Bearer bad' })).to.equal(401)
      expect(await list(session, WEAK)).to.equal(403)
      expect((await served().send(legacy(call('wipe'), { ...session, ...OTHER }))).status).to.equal(403)
      expect(await list(session), 'without a token').to.equal(200)
      expect(await list(session, USER)).to.equal(200)
    })

    it(`${entry.name} gives an anonymous session to one of two users who claim it at the same time`, async () => {
      const { session } = await open()
      const statuses = await Promise.all([list(session, USER), list(session, OTHER)])
      expect(statuses.sort()).to.deep.equal([200, 404])
    })

    it(`${entry.name} refuses GET and DELETE without a token in an anonymous session`, async () => {
      const { session } = await open()
      for (const method of ['GET', 'DELETE']) {
        const headers = { ...session, accept: 'text/event-stream' }
        expect((await served().send({ method, headers })).status).to.equal(401)
      }
      expect(await list(session)).to.equal(200)
    })

    it(`${entry.name} refuses a client without a token the session of a user`, async () => {
      const { session } = await open(USER)
      expect(await list(session)).to.equal(404)
      expect(await list(session, USER)).to.equal(200)
    })

    it(`${entry.name} does not end sessions of users for anonymous sessions`, async () => {
      served = full
      const own = [await open(USER), await open(USER), await open(USER)]
      for (let count = 0; count < 4; count++) expect((await open()).status).to.equal(503)
      for (const { session } of own) expect(await list(session, USER)).to.equal(200)
      for (const { session } of own)
        await served().send({ method: 'DELETE', headers: { ...session, ...USER } })
    })

    it(`${entry.name} ends anonymous sessions for the sessions of users`, async () => {
      served = full
      const first = await open(OTHER)
      const anonymous = [await open(), await open()]
      const second = await open(USER)
      expect(await list(first.session, OTHER)).to.equal(200)
      expect(await list(second.session, USER)).to.equal(200)
      expect(await list(anonymous[0]?.session as HeaderFields)).to.equal(404)
      expect(await list(anonymous[1]?.session as HeaderFields)).to.equal(200)
    })
  })
}
