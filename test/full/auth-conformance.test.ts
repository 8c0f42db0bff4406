import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { z } from 'zod'
import { Browser } from '../../examples/clients.ts'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { jwtVerifier } from '../../src/oauth/verifiers/jwt.ts'
import { createTestIssuer, type TestIssuer, type TestTokenOptions } from '../../src/testing/test-issuer.ts'
import { parseChallenge } from '../support/challenge.ts'
import {
  bearer,
  call,
  type HeaderFields,
  LEGACY,
  type Listening,
  legacy,
  listen,
  MODERN,
  modern,
  rpc,
  send,
  type WireAnswer,
  type WireRequest,
} from '../support/mcp/wire.ts'
import { type ProtectedServer, startProtectedServer } from './protected-server.ts'

// The published conformance suite does not test the authorization of servers. These tests follow the authorization
// chapter of MCP and the scenarios proposed for that suite: a client that registers itself, step-up, and the audience of
// tokens. The client does not use the SDK. It does only what the specifications require.

const REDIRECT_URI = 'http://127.0.0.1:33418/callback'

const router = KitMcpRouter.create()
  .tool('echo', { description: 'Echoes', input: z.object({ text: z.string() }) }, ({ text }) => text)
  .tool('admin-action', { description: 'Needs more', scopes: ['mcp:write'] }, () => 'done')

/** The messages of a client in each era of the protocol. */
const ERAS = [
  {
    era: LEGACY,
    first: (headers: HeaderFields) =>
      legacy(
        rpc('initialize', {
          protocolVersion: LEGACY,
          capabilities: {},
          clientInfo: { name: 'test', version: '1' },
        }),
        { 'mcp-protocol-version': undefined, ...headers },
      ),
    list: (headers: HeaderFields) => legacy(rpc('tools/list'), headers),
    call: (name: string, args: Record<string, unknown>, headers: HeaderFields) =>
      legacy(call(name, args), headers),
  },
  {
    era: MODERN,
    first: (headers: HeaderFields) => modern('server/discover', {}, headers),
    list: (headers: HeaderFields) => modern('tools/list', {}, headers),
    call: (name: string, args: Record<string, unknown>, headers: HeaderFields) =>
      modern('tools/call', { name, arguments: args }, headers),
  },
] as const

const jsonOf = async (url: string | URL): Promise<any> => {
  const response = await fetch(url)
  expect(response.status, String(url)).to.equal(200)
  expect(response.headers.get('content-type')).to.match(/^application\/json/)
  return await response.json()
}

/** The results of discovery by a client that knows only the URL of a server. */
interface Discovered {
  readonly refused: WireAnswer
  readonly challenge: Record<string, string>
  readonly resourceMetadata: any
  readonly serverMetadata: any
  readonly client: any
}

/** Discovers the servers from the 401, and registers a client. */
async function discover(server: ProtectedServer, request: WireRequest): Promise<Discovered> {
  const refused = await sendTo(server, request)
  const challenge = parseChallenge(refused.headers.get('www-authenticate') ?? '')
  const resourceMetadata = await jsonOf(challenge.resource_metadata ?? '')
  const [issuer] = resourceMetadata.authorization_servers
  const serverMetadata = await jsonOf(`${issuer}/.well-known/oauth-authorization-server`)
  const registered = await fetch(serverMetadata.registration_endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      redirect_uris: [REDIRECT_URI],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code'],
      scope: challenge.scope,
    }),
  })
  expect(registered.status).to.equal(201)
  return { refused, challenge, resourceMetadata, serverMetadata, client: await registered.json() }
}

/** Gets a token for `scope` by authorization code with PKCE. */
async function authorize(
  { resourceMetadata, serverMetadata, client }: Discovered,
  scope: string,
): Promise<any> {
  const { resource } = resourceMetadata
  const verifier = randomBytes(32).toString('base64url')
  const url = new URL(serverMetadata.authorization_endpoint)
  url.search = new URLSearchParams({
    response_type: 'code',
    client_id: client.client_id,
    redirect_uri: REDIRECT_URI,
    scope,
    resource,
    state: randomBytes(8).toString('hex'),
    code_challenge: createHash('sha256').update(verifier).digest('base64url'),
    code_challenge_method: 'S256',
  }).toString()
  const { searchParams } = await new Browser(fetch).follow(url, REDIRECT_URI)
  const response = await fetch(serverMetadata.token_endpoint, {
    method: 'POST',
    body: new URLSearchParams({
      grant_type: 'authorization_code',
      client_id: client.client_id,
      redirect_uri: REDIRECT_URI,
      code: searchParams.get('code') ?? '',
      code_verifier: verifier,
      resource,
    }),
  })
  expect(response.status).to.equal(200)
  return await response.json()
}

const sendTo = (server: ProtectedServer, request: WireRequest) =>
  send(Number(new URL(server.resource).port), request)

for (const { era, first, list, call } of ERAS) {
  describe(`auth conformance, ${era}: a client that registers`, () => {
    let server: ProtectedServer
    let found: Discovered
    let token: { access_token: string; token_type: string; scope?: string }
    before(async () => {
      server = await startProtectedServer({ router })
      found = await discover(server, first({}))
      token = await authorize(found, found.challenge.scope ?? '')
    })
    after(() => server.close())

    const CHECKS: Readonly<Record<string, () => unknown>> = {
      'a request without a token gets a 401': () => expect(found.refused.status).to.equal(401),
      'the 401 has a well-formed Bearer challenge': () =>
        expect(found.challenge).to.include({ realm: 'mcp-server', error: 'invalid_token' }),
      'the challenge of the 401 names only the scopes of the endpoint': () =>
        expect(found.challenge.scope).to.equal('mcp:read'),
      'the challenge names the metadata URL with the path of the resource': () =>
        expect(found.challenge.resource_metadata).to.equal(
          server.resource.replace('/mcp', '/.well-known/oauth-protected-resource/mcp'),
        ),
      'the metadata names the resource by the URL of the request': () =>
        expect(found.resourceMetadata.resource).to.equal(server.resource),
      'the metadata names the authorization server': () =>
        expect(found.resourceMetadata.authorization_servers).to.deep.equal([server.authorization.issuer]),
      'the metadata allows tokens only in the header, and does not list offline_access': () => {
        expect(found.resourceMetadata.bearer_methods_supported).to.deep.equal(['header'])
        expect(found.resourceMetadata.scopes_supported).to.have.members(['mcp:read', 'mcp:write'])
      },
      'the metadata document at the root is the same': async () => {
        const { origin } = new URL(server.resource)
        expect(await jsonOf(`${origin}/.well-known/oauth-protected-resource`)).to.deep.equal(
          found.resourceMetadata,
        )
      },
      'the authorization server supports PKCE with S256 and registers clients': () => {
        expect(found.serverMetadata.issuer).to.equal(server.authorization.issuer)
        expect(found.serverMetadata.code_challenge_methods_supported).to.include('S256')
        expect(found.client.client_id).to.be.a('string')
      },
      'the authorization server issues a bearer token': () => expect(token.token_type).to.equal('Bearer'),
      'the first request with the token is accepted': async () => {
        const { status, message } = await sendTo(server, first(bearer(token.access_token)))
        expect(status).to.equal(200)
        expect(message.result).to.have.property('capabilities')
      },
      'a client with the token can list and call tools': async () => {
        const listed = await sendTo(server, list(bearer(token.access_token)))
        expect(listed.status).to.equal(200)
        expect(listed.message.result.tools).to.have.length(2)
        const called = await sendTo(server, call('echo', { text: 'hello' }, bearer(token.access_token)))
        expect(called.message.result.content[0].text).to.equal('hello')
      },
      'a later request without the token gets a 401': async () => {
        expect((await sendTo(server, list({}))).status).to.equal(401)
        expect((await sendTo(server, call('echo', { text: 'x' }, {}))).status).to.equal(401)
      },
      'a request with the token in the query gets a 401': async () => {
        const path = `/mcp?access_token=${token.access_token}`
        expect((await sendTo(server, { ...list({}), path })).status).to.equal(401)
      },
      'a GET and a DELETE without a token get a 401': async () => {
        for (const method of ['GET', 'DELETE']) {
          const headers = { accept: 'text/event-stream' }
          expect((await sendTo(server, { method, headers })).status, method).to.equal(401)
        }
      },
    }
    for (const [title, check] of Object.entries(CHECKS))
      it(`${title} (${era})`, async () => void (await check()))
  })

  describe(`auth conformance, ${era}: step-up`, () => {
    let server: ProtectedServer
    let found: Discovered
    let narrow: { access_token: string }
    let refused: WireAnswer
    let challenge: Record<string, string>
    before(async () => {
      server = await startProtectedServer({ router })
      found = await discover(server, first({}))
      narrow = await authorize(found, 'mcp:read')
      refused = await sendTo(server, call('admin-action', {}, bearer(narrow.access_token)))
      challenge = parseChallenge(refused.headers.get('www-authenticate') ?? '')
    })
    after(() => server.close())

    it(`a token with one scope can list tools (${era})`, async () => {
      expect((await sendTo(server, list(bearer(narrow.access_token)))).status).to.equal(200)
    })
    it(`a call of a privileged tool with a token for one scope gets a 403, not an error in a 200 (${era})`, () => {
      expect(refused.status).to.equal(403)
      expect(challenge).to.include({ realm: 'mcp-server', error: 'insufficient_scope' })
    })
    it(`the challenge of the 403 names every scope of the operation (${era})`, () => {
      expect(challenge.scope?.split(' ')).to.have.members(['mcp:read', 'mcp:write'])
    })
    it(`the challenge of the 403 names the same metadata URL as that of the 401 (${era})`, () => {
      expect(challenge.resource_metadata).to.equal(found.challenge.resource_metadata)
    })
    it(`a token with the scopes of the challenge can call the privileged tool (${era})`, async () => {
      const wider = await authorize(found, challenge.scope ?? '')
      const { status, message } = await sendTo(server, call('admin-action', {}, bearer(wider.access_token)))
      expect(status).to.equal(200)
      expect(message.result.content[0].text).to.equal('done')
    })
    it(`the first token still gets a 403 after the step-up (${era})`, async () => {
      const again = await sendTo(server, call('admin-action', {}, bearer(narrow.access_token)))
      expect(again.status).to.equal(403)
    })
  })

  describe(`auth conformance, ${era}: the audience of tokens`, () => {
    let keys: Listening
    let keysFetched = 0
    let served: Listening
    let issuer: TestIssuer
    let forger: TestIssuer
    before(async () => {
      keys = await listen((_req, res) => {
        keysFetched++
        res.setHeader('content-type', 'application/json').end(JSON.stringify(issuer.jwks))
      })
      served = await listen((req, res) => auth(req, res, () => handler(req, res)))
      const audience = `${served.origin}/mcp`
      issuer = createTestIssuer({ issuer: keys.origin, audience })
      forger = createTestIssuer({ issuer: keys.origin, audience })
      const verifyToken = jwtVerifier({ issuer: keys.origin, jwksUri: `${keys.origin}/jwks`, audience })
      const adapter = createMcpAdapter({
        router,
        oauth: { issuer: keys.origin, resource: audience, verifyToken },
      })
      const auth = mcpAuth(adapter)
      const handler = mcpHandler(adapter)
    })
    after(async () => {
      await served.close()
      await keys.close()
    })

    it(`a request without a token gets a 401, and the server fetches no keys (${era})`, async () => {
      const { status, headers } = await served.send(list({}))
      expect(status).to.equal(401)
      expect(parseChallenge(headers.get('www-authenticate') ?? '')).to.include({ error: 'invalid_token' })
      expect(keysFetched).to.equal(0)
    })

    const elsewhere = 'https://elsewhere.example/mcp'
    const TOKENS: readonly {
      what: string
      by?: () => TestIssuer
      token: TestTokenOptions
      status: number
    }[] = [
      { what: 'a token for this server', token: {}, status: 200 },
      { what: 'a token for another server', token: { audience: elsewhere }, status: 401 },
      { what: 'a token without an audience', token: { claims: { aud: undefined } }, status: 401 },
      { what: 'a token that has expired', token: { expiresIn: -60 }, status: 401 },
      { what: 'a token of a key that is not the issuer’s', by: () => forger, token: {}, status: 401 },
      { what: 'a token for an audience that begins like this one', token: { audience: '?' }, status: 401 },
      { what: 'a token of another issuer', token: { claims: { iss: 'https://other.example' } }, status: 401 },
    ]
    for (const { what, by = () => issuer, token, status } of TOKENS) {
      it(`${what} gets ${status} (${era})`, async () => {
        const audience = token.audience === '?' ? `${issuer.audience}-2` : token.audience
        const answer = await served.send(list(bearer(await by().issueToken({ ...token, audience }))))
        expect(answer.status).to.equal(status)
        if (status === 200) expect(answer.message.result.tools).to.have.length(2)
        else expect(answer.headers.get('www-authenticate')).to.match(/^Bearer .*error="invalid_token"/)
      })
    }
    it(`a token for several servers is accepted if this server is one of them (${era})`, async () => {
      const audience = [elsewhere, issuer.audience]
      expect((await served.send(list(bearer(await issuer.issueToken({ audience }))))).status).to.equal(200)
    })
  })
}
