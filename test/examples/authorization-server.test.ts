import { createHash, randomBytes } from 'node:crypto'
import { expect } from 'chai'
import { createRemoteJWKSet, jwtVerify } from 'jose'
import { type AuthorizationServer, startAuthorizationServer } from '../../examples/authorization-server.ts'
import { Browser } from '../../examples/clients.ts'

const RESOURCE = 'http://127.0.0.1:9/mcp'
const REDIRECT_URI = 'http://127.0.0.1:33418/callback'

describe('the authorization server of the examples', () => {
  let server: AuthorizationServer

  before(async () => {
    server = await startAuthorizationServer({ resources: [RESOURCE], scopes: ['mcp:read', 'mcp:write'] })
  })
  after(() => server.close())

  /** Signs in the user with a scope. Resolves with the final redirect. */
  async function authorize(clientId: string, scope: string, challenge: string, resource = RESOURCE) {
    const url = new URL(`${server.issuer}/auth`)
    const parameters = {
      response_type: 'code',
      client_id: clientId,
      redirect_uri: REDIRECT_URI,
      scope,
      resource,
    }
    url.search = new URLSearchParams({
      ...parameters,
      state: 'a-state',
      ...(challenge && { code_challenge: challenge, code_challenge_method: 'S256' }),
    }).toString()
    return (await new Browser(fetch).follow(url, REDIRECT_URI)).searchParams
  }

  /** Resolves with the claims of the token that a client gets by authorization code. */
  async function claimsFor(clientId: string, scope: string) {
    const verifier = randomBytes(32).toString('base64url')
    const challenge = createHash('sha256').update(verifier).digest('base64url')
    const code = (await authorize(clientId, scope, challenge)).get('code') ?? ''
    const response = await fetch(`${server.issuer}/token`, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'authorization_code',
        client_id: clientId,
        redirect_uri: REDIRECT_URI,
        code,
        code_verifier: verifier,
        resource: RESOURCE,
      }),
    })
    const { access_token } = (await response.json()) as { access_token: string }
    return verify(access_token)
  }

  function verify(token: string) {
    const keys = createRemoteJWKSet(new URL(server.jwksUri))
    return jwtVerify(token, keys, { issuer: server.issuer, audience: RESOURCE, typ: 'at+jwt' })
  }

  it('the authorization server issues a JWT for one resource with the email address of the user', async () => {
    const { payload } = await claimsFor(server.clientId, 'mcp:read')
    expect(payload).to.include({ aud: RESOURCE, sub: 'ada', email: 'ada@example.com', scope: 'mcp:read' })
  })

  it('the authorization server allows a dynamically registered client to request more scopes later', async () => {
    const response = await fetch(`${server.issuer}/reg`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({
        redirect_uris: [REDIRECT_URI],
        token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'],
        scope: 'mcp:read',
      }),
    })
    const { client_id } = (await response.json()) as { client_id: string }
    const { payload } = await claimsFor(client_id, 'mcp:read mcp:write')
    expect(payload).to.include({ scope: 'mcp:read mcp:write', client_id })
  })

  it('the authorization server issues a token to a service, without a user', async () => {
    const { payload } = await verify(await server.issueToken(['mcp:read']))
    expect(payload).to.include({ sub: 'notes-service', scope: 'mcp:read' })
    expect(payload).not.to.have.property('email')
  })

  it('the authorization server introspects opaque tokens only for the MCP server', async () => {
    const opaque = await startAuthorizationServer({
      resources: [RESOURCE],
      scopes: ['mcp:read'],
      tokens: 'opaque',
    })
    try {
      const { endpoint, clientId, clientSecret } = opaque.introspection
      const token = await opaque.issueToken(['mcp:read'])
      expect(token).not.to.include('.')
      const ask = async (secret: string) => {
        const authorization = `Basic ${Buffer.from(`${clientId}:${secret}`).toString('base64')}`
        const body = new URLSearchParams({ token })
        const response = await fetch(endpoint, { method: 'POST', headers: { authorization }, body })
        return { status: response.status, answer: (await response.json()) as object }
      }
      const { status, answer } = await ask(clientSecret)
      expect(status).to.equal(200)
      expect(answer).to.include({
        active: true,
        aud: RESOURCE,
        client_id: 'notes-service',
        scope: 'mcp:read',
      })
      expect((await ask('wrong')).status).to.equal(401)
    } finally {
      await opaque.close()
    }
  })

  it('the authorization server rejects an unknown resource and a client without PKCE', async () => {
    const elsewhere = await authorize(server.clientId, 'mcp:read', 'a'.repeat(43), 'http://127.0.0.1:9/other')
    expect(elsewhere.get('error')).to.equal('invalid_target')
    expect((await authorize(server.clientId, 'mcp:read', '')).get('error')).to.equal('invalid_request')
  })
})
