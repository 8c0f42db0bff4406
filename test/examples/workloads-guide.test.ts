import { expect } from 'chai'
import express from 'express'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import { type McpAdapter, mcpAuth, mcpHandler, type OAuthOptions } from 'mcp-gatekit'
import { importGuide } from '../support/examples/guide.ts'
import { listen } from '../support/listen.ts'
import { modern, send } from '../support/mcp/wire.ts'
import { nowSeconds } from '../support/tokens.ts'

interface Example {
  readonly oauth: OAuthOptions
  readonly adapter: McpAdapter
}
type Claims = Readonly<Record<string, unknown>>

/** A kind of caller, with the claims that its platform documents. */
interface Workload {
  readonly section: string
  readonly alg: string
  readonly claims: Claims
  readonly user: string
  readonly client: string
  readonly scopes: readonly string[]
  /** Changes that make the token one of a caller that the gate does not know. */
  readonly others: Readonly<Record<string, Claims>>
  /** Changes, beyond issuer and audience, with which the token is not accepted at all. */
  readonly refused: Readonly<Record<string, Claims>>
}

const RESOURCE = 'https://mcp.example.com/mcp'
const TENANT = 'aaaabbbb-0000-cccc-1111-dddd2222eeee'
const DENIED = 'You are not allowed to use this tool.'
const OBJECT = 'ffffffff-6666-7777-8888-aaaaaaaaaaaa'

const WORKLOADS: readonly Workload[] = [
  {
    section: 'Kubernetes service accounts',
    alg: 'RS256',
    claims: {
      aud: [RESOURCE],
      iss: 'https://oidc.cluster.example.com',
      jti: 'ea28ed49-2e11-4280-9ec5-bc3d1d84661a',
      'kubernetes.io': {
        namespace: 'billing',
        node: { name: 'node-1', uid: '646e7c5e-32d6-4d42-9dbd-e504e6cbe6b1' },
        pod: { name: 'reporter-0', uid: '5e0bd49b-f040-43b0-99b7-22765a53f7f3' },
        serviceaccount: { name: 'reporter', uid: '14ee3fa4-a7e2-420f-9f9a-dbc4507c3798' },
      },
      sub: 'system:serviceaccount:billing:reporter',
    },
    user: 'system:serviceaccount:billing:reporter',
    client: '',
    scopes: ['mcp:read'],
    others: {
      'of another account': { sub: 'system:serviceaccount:billing:default' },
      'of another namespace': { sub: 'system:serviceaccount:test:reporter' },
    },
    refused: {
      'for the API server': { aud: ['https://kubernetes.default.svc.cluster.local'] },
      'that is not of a service account': { 'kubernetes.io': undefined },
    },
  },
  {
    section: 'GitHub Actions',
    alg: 'RS256',
    claims: {
      aud: RESOURCE,
      iss: 'https://token.actions.githubusercontent.com',
      jti: '6dc56e3b-8a3f-4d2c-a9c9-09d2f1a1c8a7',
      sub: 'repo:acme/shop:ref:refs/heads/main',
      ref: 'refs/heads/main',
      ref_type: 'branch',
      repository: 'acme/shop',
      repository_id: '1296269',
      repository_owner: 'acme',
      repository_owner_id: '583231',
      repository_visibility: 'private',
      run_id: '2491543902',
      run_attempt: '1',
      actor: 'ada',
      actor_id: '12',
      workflow: 'deploy',
      workflow_ref: 'acme/shop/.github/workflows/deploy.yml@refs/heads/main',
      job_workflow_ref: 'acme/shop/.github/workflows/deploy.yml@refs/heads/main',
      event_name: 'push',
      head_ref: '',
      base_ref: '',
      runner_environment: 'github-hosted',
    },
    user: 'repository:1296269',
    client: '',
    scopes: ['mcp:read'],
    others: {
      'of another repository': { repository_id: '99' },
      'of a repository that has taken the name': { repository_id: '100', repository: 'acme/shop' },
      'of another branch': { ref: 'refs/heads/try', sub: 'repo:acme/shop:ref:refs/heads/try' },
      'of a pull request': { ref: 'refs/pull/7/merge', sub: 'repo:acme/shop:pull_request' },
    },
    refused: { 'for the owner, without a requested audience': { aud: 'https://github.com/acme' } },
  },
  {
    section: 'Managed identities of Microsoft Entra ID',
    alg: 'RS256',
    claims: {
      aud: '00001111-aaaa-2222-bbbb-3333cccc4444',
      iss: `https://login.microsoftonline.com/${TENANT}/v2.0`,
      azp: '11112222-bbbb-3333-cccc-4444dddd5555',
      azpacr: '2',
      idtyp: 'app',
      oid: OBJECT,
      rh: '0.AXEA',
      roles: ['mcp.read'],
      sub: OBJECT,
      tid: TENANT,
      uti: 'abc',
      ver: '2.0',
      xms_mirid: '/subscriptions/1/resourcegroups/g/providers/Microsoft.Compute/virtualMachines/vm',
    },
    user: `${TENANT}/${OBJECT}`,
    client: '11112222-bbbb-3333-cccc-4444dddd5555',
    scopes: ['mcp:read'],
    others: {
      'of an application without a role': { roles: undefined },
      'with a role of another kind': { roles: ['other'] },
      'of a user with the role': { scp: 'mcp.read', idtyp: 'user' },
    },
    refused: {
      'of version 1': { iss: `https://sts.windows.net/${TENANT}/`, aud: RESOURCE, ver: '1.0' },
      'of another tenant': { iss: `https://login.microsoftonline.com/${OBJECT}/v2.0` },
    },
  },
  {
    section: 'SPIFFE JWT-SVID',
    alg: 'ES256',
    claims: {
      aud: [RESOURCE],
      iss: 'https://oidc-discovery.example.org',
      sub: 'spiffe://example.org/ns/billing/sa/reporter',
    },
    user: 'spiffe://example.org/ns/billing/sa/reporter',
    client: '',
    scopes: ['mcp:read'],
    others: {
      'of another workload': { sub: 'spiffe://example.org/ns/billing/sa/other' },
      'of a workload whose ID only begins alike': { sub: 'spiffe://example.org/ns/billing/sa/reporter-2' },
      'of another trust domain': { sub: 'spiffe://evil.example/ns/billing/sa/reporter' },
    },
    refused: { 'without an issuer': { iss: undefined } },
  },
]

describe('the examples of the guide to workloads', () => {
  const { fetch } = globalThis
  let examples: ReadonlyMap<string, Example>
  /** The keys by algorithm. */
  let keys: Readonly<Record<string, { jwk: JWK; privateKey: CryptoKey }>>
  /** Changes the keys that issuers publish. */
  let published: (jwk: JWK) => JWK

  before(async () => {
    examples = await importGuide<Example>('docs/guides/workloads.md')
    const made = ['RS256', 'ES256'].map(async (alg) => {
      const { publicKey, privateKey } = await generateKeyPair(alg)
      return [
        alg,
        { jwk: { ...(await exportJWK(publicKey)), kid: alg, alg, use: 'sig' }, privateKey },
      ] as const
    })
    keys = Object.fromEntries(await Promise.all(made))
  })
  beforeEach(() => {
    published = (jwk) => jwk
    globalThis.fetch = async (input, init) => {
      const { origin, pathname, hostname } = new URL(String(input))
      if (hostname === '127.0.0.1') return await fetch(input, init)
      if (pathname === '/keys')
        return Response.json({ keys: Object.values(keys).map(({ jwk }) => published(jwk)) })
      const issuer = `${origin}${pathname.replace(/\/?\.well-known\/[a-z-]+/, '')}`
      return Response.json({ issuer, jwks_uri: `${origin}/keys` })
    }
  })
  afterEach(() => {
    globalThis.fetch = fetch
  })

  async function signed(alg: string, claims: Claims): Promise<string> {
    const key = keys[alg] as { jwk: JWK; privateKey: CryptoKey }
    const iat = nowSeconds()
    return await new SignJWT({ iat, nbf: iat, exp: iat + 600, ...claims })
      .setProtectedHeader({ alg, kid: alg, typ: 'JWT' })
      .sign(key.privateKey)
  }

  it('every example of the guide is tested below', () => {
    expect([...examples.keys()]).to.deep.equal([
      ...WORKLOADS.map(({ section }) => section),
      'Agents that act for a user',
    ])
  })

  for (const { section, alg, claims, user, client, scopes, others, refused } of WORKLOADS) {
    describe(section, () => {
      async function ask(changes: Claims = {}): Promise<{ status: number; body: any; challenge: string }> {
        const { oauth } = examples.get(section) as Example
        const app = express()
        app.use('/mcp', mcpAuth(oauth), (req, res) => {
          res.json({ ...req.auth })
        })
        const { origin } = await listen(app)
        const authorization = `Bearer ${await signed(alg, { ...claims, ...changes })}`
        const response = await fetch(`${origin}/mcp`, { method: 'POST', headers: { authorization } })
        const challenge = response.headers.get('www-authenticate') ?? ''
        return { status: response.status, body: await response.json(), challenge }
      }

      it(`a token of ${section} names its caller and its client, and has the scopes of the table`, async () => {
        const { status, body } = await ask()
        expect(body).to.deep.include({ clientId: client, scopes })
        expect(body.user.id).to.equal(user)
        expect(body).not.to.have.property('actor')
        expect(status).to.equal(200)
      })

      for (const [what, changes] of Object.entries(others)) {
        it(`a token of ${section} ${what} gets a 403`, async () => {
          const { status, challenge } = await ask(changes)
          expect(status).to.equal(403)
          expect(challenge).to.include('error="insufficient_scope"').and.include('scope="mcp:read"')
        })
      }

      for (const [what, changes] of Object.entries({
        'with another audience': { aud: 'https://other.example.com/mcp' },
        'without an audience': { aud: undefined },
        'of another issuer': { iss: 'https://evil.example' },
        'that has expired': { exp: nowSeconds() - 1 },
        ...refused,
      })) {
        it(`a token of ${section} ${what} gets a 401`, async () => {
          const { status, challenge } = await ask(changes)
          expect(status).to.equal(401)
          expect(challenge).to.include('error="invalid_token"')
        })
      }
    })
  }

  it('the keys of a SPIFFE bundle endpoint do not verify a JWT-SVID', async () => {
    published = (jwk) => ({ ...jwk, use: 'jwt-svid' })
    const { claims, alg } = WORKLOADS.at(-1) as Workload
    const example = await importGuide<Example>('docs/guides/workloads.md')
    const app = express().use('/mcp', mcpAuth((example.get('SPIFFE JWT-SVID') as Example).oauth))
    const { origin } = await listen(app)
    const headers = { authorization: `Bearer ${await signed(alg, claims)}` }
    expect((await fetch(`${origin}/mcp`, { method: 'POST', headers })).status).to.equal(401)
  })

  describe('Agents that act for a user', () => {
    async function call(name: string, claims: Claims): Promise<unknown> {
      const { adapter } = examples.get('Agents that act for a user') as Example
      const { port } = await listen(mcpHandler(adapter))
      const token = await signed('ES256', {
        iss: 'https://auth.example.com',
        aud: RESOURCE,
        sub: 'ada',
        ...claims,
      })
      const headers = { host: 'localhost', authorization: `Bearer ${token}` }
      const answer = await send(port, modern('tools/call', { name, arguments: {} }, headers))
      return answer.status === 200 ? answer.message.result.content[0].text : answer.status
    }

    for (const [what, name, claims, expected] of [
      ['a user may call every tool', 'delete_notes', {}, 'deleted'],
      ['a user without an actor is the caller', 'whoami', {}, 'the user'],
      [
        'a known agent may call a tool for a user',
        'whoami',
        { act: { sub: 'agent-7' } },
        'agent-7 for the user',
      ],
      [
        'a known agent may not call a tool that is denied',
        'delete_notes',
        { act: { sub: 'agent-7' } },
        DENIED,
      ],
      ['an unknown agent is denied', 'whoami', { act: { sub: 'agent-8' } }, DENIED],
      [
        'an unknown agent is denied also if a known one acted before it',
        'whoami',
        { act: { sub: 'agent-8', act: { sub: 'agent-7' } } },
        DENIED,
      ],
      ['an agent that cannot be read is refused', 'whoami', { act: 'agent-7' }, 401],
    ] as const) {
      it(`${what}, in the example of the guide`, async () => {
        expect(await call(name, claims)).to.equal(expected)
      })
    }
  })
})
