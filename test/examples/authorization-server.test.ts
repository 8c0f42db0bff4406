import { expect } from 'chai'
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
