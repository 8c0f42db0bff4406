import { generateKeyPairSync } from 'node:crypto'
import { expect } from 'chai'
import request from 'supertest'
import { withoutNotices } from '../../../src/authorization/server/without-notices.ts'
import { cachedVerifier, firstMatch, introspectionVerifier, jwtVerifier } from '../../../src/index.ts'
import type { IntrospectionVerifierOptions } from '../../../src/oauth/verifiers/introspection.ts'
import { parseChallenge } from '../../support/challenge.ts'
import { gatedApp } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'

const MCP = 'https://mcp.example.com/mcp'
const OTHER = 'https://other.example.com/api'
const AGENT = { client_id: 'agent', client_secret: 'what the agent says' }
const SERVER = { client_id: 'mcp-server', client_secret: 'what the server says: a/b+c%20' }

/** An `oidc-provider` whose access tokens are opaque for `opaque` resources, and JWTs otherwise. */
async function startServer(opaque: readonly string[]) {
  const { server, origin } = await listen((req, res) => provider.callback()(req, res))
  // Hides its warnings about the version of Node.js and its database.
  const { warn } = console
  console.warn = () => undefined
  const { Provider } = await withoutNotices(() => import('oidc-provider'))
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const provider = await withoutNotices(
    () =>
      new Provider(origin, {
        clients: [AGENT, SERVER].map((client) => ({
          ...client,
          grant_types: ['client_credentials'],
          response_types: [],
          redirect_uris: [],
        })),
        scopes: ['mcp:read'],
        jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig', kid: 'one' }] },
        clientDefaults: { id_token_signed_response_alg: 'ES256' },
        features: {
          devInteractions: { enabled: false },
          clientCredentials: { enabled: true },
          introspection: { enabled: true },
          revocation: { enabled: true },
          resourceIndicators: {
            enabled: true,
            getResourceServerInfo: (_ctx, resource) => ({
              scope: 'mcp:read',
              audience: resource,
              accessTokenTTL: 600,
              ...(opaque.includes(resource)
                ? { accessTokenFormat: 'opaque' as const }
                : { accessTokenFormat: 'jwt' as const, jwt: { sign: { alg: 'ES256' as const } } }),
            }),
          },
        },
        ttl: { ClientCredentials: 600 },
      }),
  )
  console.warn = warn

  async function post(path: string, body: Record<string, string>): Promise<Record<string, string>> {
    const credentials = [AGENT.client_id, AGENT.client_secret].map(encodeURIComponent).join(':')
    const response = await fetch(`${origin}${path}`, {
      method: 'POST',
      headers: { authorization: `Basic ${Buffer.from(credentials).toString('base64')}` },
      body: new URLSearchParams(body),
    })
    const text = await response.text()
    return text === '' ? {} : JSON.parse(text)
  }
  return {
    issuer: origin,
    server,
    async token(resource: string): Promise<string> {
      const grant = { grant_type: 'client_credentials', scope: 'mcp:read', resource }
      return (await post('/token', grant)).access_token as string
    },
    revoke: (token: string) => post('/token/revocation', { token }),
    options: {
      endpoint: `${origin}/token/introspection`,
      clientId: SERVER.client_id,
      clientSecret: SERVER.client_secret,
      issuer: origin,
      audience: MCP,
    } satisfies IntrospectionVerifierOptions,
  }
}

const bearer = (token: string): [string, string] => ['Authorization', `Bearer ${token}`]
const oauth = { resource: MCP, scopes: ['mcp:read'] }

describe('introspectionVerifier() with oidc-provider', () => {
  it('introspectionVerifier() with oidc-provider accepts an opaque token and returns its data', async () => {
    const { issuer, token, options } = await startServer([MCP])
    const app = gatedApp({ ...oauth, issuer, verifyToken: introspectionVerifier(options) })
    const opaque = await token(MCP)
    expect(opaque).not.to.include('.')
    const { status, body } = await request(app)
      .get('/mcp')
      .set(...bearer(opaque))
    expect(status).to.equal(200)
    expect(body.auth).to.deep.include({ clientId: 'agent', scopes: ['mcp:read'], resource: MCP })
    expect(body.auth.user.id).to.equal('agent')
    expect(body.auth.expiresAt).to.be.closeTo(Date.now() / 1000 + 600, 30)
  })

  it('introspectionVerifier() with oidc-provider rejects a token for another resource, an unknown one, and a revoked one', async () => {
    const { issuer, token, revoke, options } = await startServer([MCP, OTHER])
    const app = gatedApp({ ...oauth, issuer, verifyToken: introspectionVerifier(options) })
    const [foreign, revoked] = [await token(OTHER), await token(MCP)]
    await request(app)
      .get('/mcp')
      .set(...bearer(revoked))
      .expect(200)
    await revoke(revoked)
    for (const [sent, description] of [
      [foreign, 'The access token was issued for another resource'],
      ['an-unknown-token', 'The access token is invalid'],
      [revoked, 'The access token is invalid'],
    ] as const) {
      const { status, headers } = await request(app)
        .get('/mcp')
        .set(...bearer(sent))
      expect(status).to.equal(401)
      expect(parseChallenge(headers['www-authenticate'] as string).error_description).to.equal(description)
    }
  })

  it('introspectionVerifier() with oidc-provider is unavailable if its credentials are wrong, in both ways of sending them', async () => {
    const { issuer, token, options } = await startServer([MCP])
    const opaque = await token(MCP)
    for (const clientAuthentication of ['client_secret_basic', 'client_secret_post'] as const) {
      for (const [clientSecret, status] of [
        ['wrong', 503],
        [SERVER.client_secret, 200],
      ] as const) {
        const verifyToken = introspectionVerifier({ ...options, clientAuthentication, clientSecret })
        const app = gatedApp({ ...oauth, issuer, verifyToken })
        const response = await request(app)
          .get('/mcp')
          .set(...bearer(opaque))
        expect(response.status).to.equal(status)
        expect(response.headers['www-authenticate']).to.equal(undefined)
      }
    }
  })

  it('introspectionVerifier() with oidc-provider works together with jwtVerifier in a cache that can be invalidated', async () => {
    const { issuer, token, revoke, options } = await startServer([MCP])
    const signed = 'https://mcp.example.com/signed'
    const verifyToken = cachedVerifier(
      firstMatch(jwtVerifier({ issuer, audience: signed }), introspectionVerifier(options)),
    )
    const app = gatedApp({ issuer, scopes: ['mcp:read'], verifyToken })
    const [opaque, jwt] = [await token(MCP), await token(signed)]
    expect(jwt.split('.')).to.have.length(3)
    for (const sent of [opaque, jwt])
      await request(app)
        .get('/mcp')
        .set(...bearer(sent))
        .expect(200)
    await revoke(opaque)
    await request(app)
      .get('/mcp')
      .set(...bearer(opaque))
      .expect(200)
    verifyToken.invalidate(opaque)
    await request(app)
      .get('/mcp')
      .set(...bearer(opaque))
      .expect(401)
  })
})
