import { expect } from 'chai'
import type { Express } from 'express'
import { jwtVerifier, type McpAdapter, mcpHandler, type VerifyToken } from 'mcp-gatekit'
import { createTestIssuer, type TestIssuer } from 'mcp-gatekit/testing'
import { importGuide } from '../support/examples/guide.ts'
import { listen } from '../support/listen.ts'
import { modern, send } from '../support/mcp/wire.ts'
import { rawRequest } from '../support/raw-http.ts'

interface Tenant {
  readonly id: string
  readonly issuer: string
  readonly verifyToken: VerifyToken
}
interface Example {
  readonly createNotesServer: (find: (issuer: string) => Promise<{ id: string } | undefined>) => McpAdapter
  readonly createTenantServer: (tenants: ReadonlyMap<string, Tenant>) => Express
}

const AUDIENCE = 'https://mcp.example.com/mcp'
const ISSUERS = { acme: 'https://acme.login.example', initech: 'https://initech.login.example' } as const

describe('the examples of the guide to tenants', () => {
  const { fetch } = globalThis
  let examples: ReadonlyMap<string, Example>
  let issuers: Readonly<Record<string, TestIssuer>>
  let fetched: string[]

  before(async () => {
    examples = await importGuide<Example>('docs/guides/tenants.md')
    const { acme, initech } = ISSUERS
    issuers = { acme: createTestIssuer({ issuer: acme }), initech: createTestIssuer({ issuer: initech }) }
  })
  beforeEach(() => {
    fetched = []
    globalThis.fetch = async (input, init) => {
      const { origin, pathname, hostname } = new URL(String(input))
      if (hostname === '127.0.0.1') return await fetch(input, init)
      fetched.push(origin)
      const issuer = Object.values(issuers).find((one) => one.issuer === origin)
      if (issuer === undefined) throw new Error('not found')
      return Response.json(
        pathname === '/jwks' ? issuer.jwks : { issuer: origin, jwks_uri: `${origin}/jwks` },
      )
    }
  })
  afterEach(() => {
    globalThis.fetch = fetch
  })

  /** Calls a tool. Returns the status, or the text of the result. */
  async function call(port: number, host: string, name: string, token: string): Promise<unknown> {
    const headers = { host, authorization: `Bearer ${token}` }
    const answer = await send(port, modern('tools/call', { name, arguments: {} }, headers))
    return answer.status === 200 ? answer.message.result.content[0].text : answer.status
  }

  it('every example of the guide is tested below', () => {
    expect([...examples.keys()]).to.deep.equal(['One URL for all tenants', 'One URL for each tenant'])
  })

  it('the server with one URL knows the tenant of each user, and lets no strangers in', async () => {
    const tenants = new Map<string, { id: string }>([[ISSUERS.acme, { id: 'acme' }]])
    const adapter = examples
      .get('One URL for all tenants')
      ?.createNotesServer(async (issuer) => tenants.get(issuer))
    const { port } = await listen(mcpHandler(adapter as McpAdapter))
    const tokenOf = async (tenant: keyof typeof ISSUERS, sub: string) =>
      (await issuers[tenant]?.issueToken({ sub, audience: AUDIENCE })) as string
    const whoami = async (tenant: keyof typeof ISSUERS) =>
      call(port, 'localhost', 'whoami', await tokenOf(tenant, 'ada'))
    expect(await whoami('acme')).to.equal('acme/ada of acme')
    expect(await whoami('initech')).to.equal(401)
    expect(fetched).not.to.include(ISSUERS.initech)
    tenants.set(ISSUERS.initech, { id: 'initech' })
    expect(await whoami('initech')).to.equal('initech/ada of initech')
    tenants.delete(ISSUERS.acme)
    expect(await whoami('acme')).to.equal(401)
  })

  it('the server with a URL for each tenant accepts its tokens there only, and names its authorization server', async () => {
    const tenants = new Map<string, Tenant>()
    const app = examples.get('One URL for each tenant')?.createTenantServer(tenants) as Express
    const { port } = await listen(app)
    const hostOf = (tenant: string) => `${tenant}.localhost`
    for (const [id, issuer] of Object.entries(ISSUERS)) {
      const verifyToken = jwtVerifier({ issuer, audience: `https://${hostOf(id)}/mcp` })
      tenants.set(hostOf(id), { id, issuer, verifyToken })
    }
    for (const [tenant, other] of [
      ['acme', 'initech'],
      ['initech', 'acme'],
    ] as const) {
      const token = (await issuers[tenant]?.issueToken({
        audience: [`https://${hostOf(tenant)}/mcp`, `https://${hostOf(other)}/mcp`],
      })) as string
      expect(await call(port, hostOf(tenant), 'whereami', token)).to.equal(tenant)
      expect(await call(port, hostOf(other), 'whereami', token)).to.equal(401)
      expect(await call(port, 'elsewhere.localhost', 'whereami', token)).to.equal(401)
      const document = await rawRequest(port, {
        target: '/.well-known/oauth-protected-resource/mcp',
        headers: [`Host: ${hostOf(tenant)}`],
      })
      expect(JSON.parse(document.body)).to.include({ resource: `https://${hostOf(tenant)}/mcp` })
      expect(JSON.parse(document.body).authorization_servers).to.deep.equal([ISSUERS[tenant]])
    }
  })
})
