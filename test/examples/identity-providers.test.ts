import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect } from 'chai'
import { type AuthorizationServer, startAuthorizationServer } from '../../examples/authorization-server.ts'
import { parseChallenge } from '../support/challenge.ts'
import { startBetterAuth } from '../support/examples/better-auth.ts'
import { startExample } from '../support/examples/run.ts'
import { freePort } from '../support/free-port.ts'
import { listen } from '../support/listen.ts'
import { bearer, modern, send, type WireAnswer } from '../support/mcp/wire.ts'
import { createSigningKey, signToken } from '../support/tokens.ts'

const METADATA = '/.well-known/oauth-protected-resource'

interface Provider {
  readonly name: string
  /** The required variables, except RESOURCE. */
  readonly settings: Readonly<Record<string, string>>
  readonly issuer: string
  /** Returns the required scope. @param resource the URL of the server */
  readonly scope: (resource: string) => string | undefined
}

const PROVIDERS: readonly Provider[] = [
  {
    name: 'generic-oidc',
    settings: { ISSUER: 'https://auth.example.com' },
    issuer: 'https://auth.example.com',
    scope: () => 'mcp:read',
  },
  {
    name: 'auth0',
    settings: { AUTH0_DOMAIN: 'acme.eu.auth0.com' },
    issuer: 'https://acme.eu.auth0.com/',
    scope: () => 'mcp:read',
  },
  {
    name: 'keycloak',
    settings: { KEYCLOAK_URL: 'https://id.example.com/', KEYCLOAK_REALM: 'acme' },
    issuer: 'https://id.example.com/realms/acme',
    scope: () => 'mcp:read',
  },
  {
    name: 'entra-id',
    settings: { TENANT_ID: '72f988bf', CLIENT_ID: '6731de76' },
    issuer: 'https://login.microsoftonline.com/72f988bf/v2.0',
    scope: (resource) => `${resource}/mcp.read`,
  },
  {
    name: 'workos',
    settings: { AUTHKIT_DOMAIN: 'acme.authkit.app' },
    issuer: 'https://acme.authkit.app',
    scope: () => undefined,
  },
  {
    name: 'cognito',
    settings: {
      COGNITO_ISSUER: 'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1',
      COGNITO_CLIENT_IDS: 'x',
    },
    issuer: 'https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1',
    scope: (resource) => `${resource}/mcp.read`,
  },
  {
    name: 'okta',
    settings: { OKTA_ISSUER: 'https://acme.okta.com/oauth2/default' },
    issuer: 'https://acme.okta.com/oauth2/default',
    scope: () => 'mcp:read',
  },
  {
    name: 'clerk',
    settings: { CLERK_FRONTEND_API: 'https://verb-noun-42.clerk.accounts.dev/' },
    issuer: 'https://verb-noun-42.clerk.accounts.dev',
    scope: () => 'profile',
  },
  {
    name: 'supabase',
    settings: { SUPABASE_URL: 'https://abcdefgh.supabase.co' },
    issuer: 'https://abcdefgh.supabase.co/auth/v1',
    scope: () => undefined,
  },
  {
    name: 'better-auth',
    settings: { BETTER_AUTH_URL: 'https://auth.example.com' },
    issuer: 'https://auth.example.com/api/auth',
    scope: () => 'mcp:read',
  },
]

/** A stand-in for a provider whose access tokens have the documented form. */
interface StandIn {
  readonly name: string
  readonly settings: (origin: string) => Readonly<Record<string, string>>
  /** The path of the issuer, with a leading slash unless it is empty. */
  readonly issuerPath: string
  /** The path of the keys below the issuer. */
  readonly keysPath: string
  readonly header: Readonly<Record<string, string>>
  readonly claims: (resource: string) => Readonly<Record<string, unknown>>
  readonly whoami: (resource: string) => unknown
  /** Changes of the claims or the header, and the status of the response. */
  readonly rejected: Readonly<
    Record<
      string,
      {
        readonly claims?: (resource: string) => Readonly<Record<string, unknown>>
        readonly header?: Readonly<Record<string, string>>
        readonly status?: number
      }
    >
  >
}

const STAND_INS: readonly StandIn[] = [
  {
    name: 'cognito',
    settings: (origin) => ({ COGNITO_ISSUER: `${origin}/eu-west-1_a1`, COGNITO_CLIENT_IDS: 'app1,app2' }),
    issuerPath: '/eu-west-1_a1',
    keysPath: '/.well-known/jwks.json',
    header: {},
    claims: (resource) => ({
      aud: undefined,
      sub: 'a1-b2',
      'cognito:groups': ['editors'],
      version: 2,
      client_id: 'app2',
      token_use: 'access',
      scope: `openid ${resource}/mcp.read`,
      username: 'ada',
    }),
    whoami: (resource) => ({
      user: { id: 'a1-b2', name: 'ada', groups: ['editors'] },
      client: 'app2',
      scopes: ['openid', `${resource}/mcp.read`],
    }),
    rejected: {
      'a token whose token_use is not access': { claims: () => ({ token_use: 'id' }) },
      'an ID token': { claims: () => ({ token_use: 'id', aud: 'app2', client_id: undefined }) },
      'a token without aud of an app client that is not listed': { claims: () => ({ client_id: 'app3' }) },
      'a token that is bound to another resource': { claims: () => ({ aud: 'https://other.example/mcp' }) },
      'a token with the scope of another resource server': {
        claims: () => ({ scope: 'https://other.example/mcp/mcp.read' }),
        status: 403,
      },
      'an expired token': { claims: () => ({ exp: 1 }) },
    },
  },
  {
    name: 'okta',
    settings: (origin) => ({ OKTA_ISSUER: `${origin}/oauth2/default` }),
    issuerPath: '/oauth2/default',
    keysPath: '/v1/keys',
    header: {},
    claims: (resource) => ({
      ver: 1,
      jti: 'AT.x',
      aud: resource,
      cid: '0oa1',
      uid: '00u1',
      scp: ['openid', 'mcp:read'],
      sub: 'ada@acme.example',
    }),
    whoami: () => ({
      user: { id: '00u1', login: 'ada@acme.example' },
      client: '0oa1',
      scopes: ['openid', 'mcp:read'],
    }),
    rejected: {
      'a token of the default audience': { claims: () => ({ aud: 'api://default' }) },
      'a token of another authorization server': { claims: () => ({ iss: 'https://acme.okta.com' }) },
      'a token without the scope': { claims: () => ({ scp: ['openid'] }), status: 403 },
    },
  },
  {
    name: 'clerk',
    settings: (origin) => ({ CLERK_FRONTEND_API: `${origin}/` }),
    issuerPath: '',
    keysPath: '/.well-known/jwks.json',
    header: { typ: 'at+jwt' },
    claims: (resource) => ({
      aud: resource,
      client_id: 'client_1',
      jti: 'oat_1',
      scope: 'profile email',
      sub: 'user_1',
    }),
    whoami: () => ({ user: { id: 'user_1' }, client: 'client_1', scopes: ['profile', 'email'] }),
    rejected: {
      'a session token of a web application': {
        claims: () => ({
          aud: undefined,
          client_id: undefined,
          azp: 'https://app.example.com',
          sid: 'sess_1',
        }),
        header: { typ: 'JWT' },
      },
      'an ID token for the same audience': { header: { typ: 'JWT' } },
      'a token for another MCP server': { claims: () => ({ aud: 'https://other.example/mcp' }) },
      'a token without a scope': { claims: () => ({ scope: undefined }), status: 403 },
    },
  },
  {
    name: 'supabase',
    settings: (origin) => ({ SUPABASE_URL: origin }),
    issuerPath: '/auth/v1',
    keysPath: '/.well-known/jwks.json',
    header: { typ: 'JWT' },
    claims: () => ({
      sub: 'a1-b2',
      role: 'authenticated',
      aud: 'authenticated',
      email: 'ada@example.com',
      client_id: '9a8b',
      aal: 'aal1',
      session_id: 's1',
    }),
    whoami: () => ({ user: { id: 'a1-b2', email: 'ada@example.com' }, client: '9a8b', scopes: [] }),
    rejected: {
      'a session token of a web application': { claims: () => ({ client_id: undefined }) },
      'a token for another audience': { claims: () => ({ aud: 'anon' }) },
      'a token of another project': { claims: () => ({ iss: 'https://other.supabase.co/auth/v1' }) },
    },
  },
]

interface Started {
  readonly resource: string
  whoami(token?: string): Promise<WireAnswer>
  get(path: string): Promise<WireAnswer>
  stop(): Promise<void>
}

/** Starts an example as a process on a free port. */
async function start(name: string, env: Readonly<Record<string, string>>, port?: number): Promise<Started> {
  const at = port ?? (await freePort())
  const resource = `http://127.0.0.1:${at}/mcp`
  const example = startExample(`identity-providers/${name}`, {
    ...env,
    RESOURCE: resource,
    PORT: String(at),
  })
  await example.said(/Serving/)
  return {
    resource,
    whoami: (token) =>
      send(at, modern('tools/call', { name: 'whoami' }, token === undefined ? {} : bearer(token))),
    get: (path) => send(at, { method: 'GET', path }),
    async stop() {
      example.process.kill()
      await example.ended
    },
  }
}

async function using<T>(starting: Promise<Started>, use: (started: Started) => Promise<T>): Promise<T> {
  const started = await starting
  try {
    return await use(started)
  } finally {
    await started.stop()
  }
}

const said = ({ message }: WireAnswer): unknown => JSON.parse(message.result.content[0].text)
const challengeOf = ({ headers }: WireAnswer) => parseChallenge(headers.get('www-authenticate') ?? '')

describe('the examples of identity providers', function () {
  this.timeout(60_000)

  describe('without a provider,', () => {
    let started: Started[]
    before(async () => {
      started = await Promise.all(PROVIDERS.map(({ name, settings }) => start(name, settings)))
    })
    after(() => Promise.all((started ?? []).map(({ stop }) => stop())))

    for (const [index, { name, issuer, scope }] of PROVIDERS.entries()) {
      it(`${name} publishes the issuer of its provider`, async () => {
        const { resource, whoami, get } = started[index] as Started
        const refused = await whoami()
        expect(refused.status).to.equal(401)
        const challenge = challengeOf(refused)
        expect(challenge.scope).to.equal(scope(resource))
        const document = await get(new URL(challenge.resource_metadata ?? '').pathname)
        expect(document.message).to.deep.include({ resource, authorization_servers: [issuer] })
      })
    }

    it('an example without its environment variables prints all of them', async () => {
      const outcome = await startExample('identity-providers/entra-id', { RESOURCE: 'x', TENANT_ID: '' })
        .ended
      expect(outcome).to.deep.equal({
        exitCode: 1,
        stdout: '',
        stderr: [
          'Set these environment variables:',
          '  TENANT_ID  the Directory (tenant) ID',
          '  CLIENT_ID  the Application (client) ID of this server',
          '',
        ].join('\n'),
      })
    })
  })

  describe('generic-oidc with an authorization server', () => {
    let server: AuthorizationServer
    let started: Started

    before(async () => {
      const port = await freePort()
      const resources = [`http://127.0.0.1:${port}/mcp`, 'http://127.0.0.1:9/other']
      server = await startAuthorizationServer({ resources, scopes: ['mcp:read', 'mcp:write'] })
      started = await start('generic-oidc', { ISSUER: server.issuer }, port)
    })
    after(async () => {
      await started?.stop()
      await server?.close()
    })

    it('generic-oidc accepts tokens of its authorization server', async () => {
      const answer = await started.whoami(await server.issueToken(['mcp:read']))
      expect(said(answer)).to.deep.equal({
        user: { id: 'notes-service' },
        client: 'notes-service',
        scopes: ['mcp:read'],
      })
    })

    it('generic-oidc names the missing scope in a challenge', async () => {
      const answer = await started.whoami(await server.issueToken(['mcp:write']))
      expect(answer.status).to.equal(403)
      expect(challengeOf(answer).scope).to.equal('mcp:read')
    })

    it('generic-oidc rejects tokens for another server', async () => {
      const answer = await started.whoami(await server.issueToken(['mcp:read'], 'http://127.0.0.1:9/other'))
      expect(answer.status).to.equal(401)
      expect(challengeOf(answer).error_description).to.equal(
        'The access token was issued for another resource',
      )
    })
  })

  describe('introspection with an authorization server that issues opaque tokens', () => {
    let server: AuthorizationServer
    let started: Started

    before(async () => {
      const port = await freePort()
      const resources = [`http://127.0.0.1:${port}/mcp`, 'http://127.0.0.1:9/other']
      server = await startAuthorizationServer({
        resources,
        scopes: ['mcp:read', 'mcp:write'],
        tokens: 'opaque',
      })
      const { endpoint, clientId, clientSecret } = server.introspection
      const settings = {
        ISSUER: server.issuer,
        INTROSPECTION_ENDPOINT: endpoint,
        CLIENT_ID: clientId,
        CLIENT_SECRET: clientSecret,
      }
      started = await start('introspection', settings, port)
    })
    after(async () => {
      await started?.stop()
      await server?.close()
    })

    it('introspection accepts opaque tokens of its authorization server', async () => {
      const token = await server.issueToken(['mcp:read'])
      expect(token).not.to.include('.')
      for (const answer of [await started.whoami(token), await started.whoami(token)])
        expect(said(answer)).to.include({ client: 'notes-service' })
    })

    it('introspection names the missing scope in a challenge', async () => {
      const answer = await started.whoami(await server.issueToken(['mcp:write']))
      expect(answer.status).to.equal(403)
      expect(challengeOf(answer).scope).to.equal('mcp:read')
    })

    it('introspection rejects tokens for another server and invalid tokens', async () => {
      const other = await server.issueToken(['mcp:read'], 'http://127.0.0.1:9/other')
      for (const token of [other, 'made-up']) expect((await started.whoami(token)).status).to.equal(401)
    })
  })

  it('keycloak accepts only tokens with the audience of the mapper', async () => {
    const key = await createSigningKey('RS256', 'of the realm')
    let jwksUri = ''
    const { origin } = await listen((req, res) => {
      const issuer = `${origin}/realms/acme`
      const known: Record<string, unknown> = {
        '/realms/acme/.well-known/openid-configuration': { issuer, jwks_uri: jwksUri },
        '/realms/acme/protocol/openid-connect/certs': { keys: [key.jwk] },
      }
      res.statusCode = known[req.url ?? ''] === undefined ? 404 : 200
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify(known[req.url ?? ''] ?? {}))
    })
    jwksUri = `${origin}/realms/acme/protocol/openid-connect/certs`
    const settings = { KEYCLOAK_URL: origin, KEYCLOAK_REALM: 'acme' }
    await using(start('keycloak', settings), async ({ resource, whoami }) => {
      const claims = {
        iss: `${origin}/realms/acme`,
        sub: 'f3b1',
        azp: 'inspector',
        typ: 'Bearer',
        scope: 'openid mcp:read',
        preferred_username: 'ada',
        realm_access: { roles: ['editor'] },
      }
      const token = (aud: unknown) => signToken(key, { ...claims, aud }, { typ: 'JWT' })
      expect(said(await whoami(await token([resource, 'account'])))).to.deep.equal({
        user: { id: 'f3b1', name: 'ada', roles: ['editor'] },
        client: 'inspector',
        scopes: ['openid', 'mcp:read'],
      })
      expect((await whoami(await token('account'))).status).to.equal(401)
      expect((await whoami(await token(undefined))).status).to.equal(401)
    })
  })

  for (const { name, settings, issuerPath, keysPath, header, claims, whoami: who, rejected } of STAND_INS) {
    it(`${name} accepts tokens of the documented form only`, async () => {
      const key = await createSigningKey('RS256', 'of the provider')
      const { origin } = await listen((req, res) => {
        const issuer = `${origin}${issuerPath}`
        const known: Record<string, unknown> = {
          [`${issuerPath}/.well-known/openid-configuration`]: { issuer, jwks_uri: `${issuer}${keysPath}` },
          [`${issuerPath}${keysPath}`]: { keys: [key.jwk] },
        }
        res.statusCode = known[req.url ?? ''] === undefined ? 404 : 200
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify(known[req.url ?? ''] ?? {}))
      })
      await using(start(name, settings(origin)), async ({ resource, whoami }) => {
        const token = (changed: object = {}, changedHeader: object = {}) =>
          signToken(
            key,
            { iss: `${origin}${issuerPath}`, ...claims(resource), ...changed },
            { ...header, ...changedHeader },
          )
        expect(said(await whoami(await token()))).to.deep.equal(who(resource))
        const statuses = await Promise.all(
          Object.entries(rejected).map(async ([what, change]) => {
            const answer = await whoami(await token(change.claims?.(resource), change.header))
            return [what, answer.status] as const
          }),
        )
        expect(Object.fromEntries(statuses)).to.deep.equal(
          Object.fromEntries(Object.entries(rejected).map(([what, { status = 401 }]) => [what, status])),
        )
      })
    })
  }

  it('cognito accepts tokens that are bound to its URL, from any app client', async () => {
    const key = await createSigningKey('RS256', 'of the pool')
    let status = 200
    const { origin } = await listen((_req, res) => {
      res.statusCode = status
      res.setHeader('Content-Type', 'application/json')
      res.end(JSON.stringify({ keys: [key.jwk] }))
    })
    const settings = { COGNITO_ISSUER: `${origin}/pool`, COGNITO_CLIENT_IDS: 'app1' }
    await using(start('cognito', settings), async ({ resource, whoami }) => {
      const scope = `${resource}/mcp.read`
      const claims = {
        iss: `${origin}/pool`,
        sub: 'a1',
        aud: resource,
        client_id: 'app9',
        token_use: 'access',
        scope,
      }
      status = 500
      expect((await whoami(await signToken(key, claims))).status).to.equal(503)
      status = 200
      expect(said(await whoami(await signToken(key, claims)))).to.deep.equal({
        user: { id: 'a1' },
        client: 'app9',
        scopes: [scope],
      })
    })
  })

  it('better-auth accepts tokens of Better Auth, and rejects its opaque tokens', async () => {
    const port = await freePort()
    const server = await startBetterAuth(`http://127.0.0.1:${port}/mcp`)
    try {
      await using(
        start('better-auth', { BETTER_AUTH_URL: server.origin }, port),
        async ({ resource, whoami }) => {
          const token = await server.issueToken('mcp:read', resource)
          expect(said(await whoami(token))).to.deep.equal({
            user: { id: server.clientId },
            client: server.clientId,
            scopes: ['mcp:read'],
          })
          expect((await whoami(await server.issueToken('mcp:write', resource))).status).to.equal(403)
          const opaque = await server.issueToken('mcp:read')
          expect(opaque).not.to.include('.')
          expect((await whoami(opaque)).status).to.equal(401)
        },
      )
    } finally {
      await server.close()
    }
  })

  describe('api-keys', () => {
    let folder: string
    let env: { KEYS_FILE: string }

    before(async () => {
      folder = await mkdtemp(join(tmpdir(), 'api-keys-'))
      env = { KEYS_FILE: join(folder, 'keys.json') }
    })
    after(() => rm(folder, { recursive: true, force: true }))

    async function create(...args: string[]): Promise<string> {
      const settings = { ...env, RESOURCE: 'http://127.0.0.1:9/mcp' }
      const outcome = await startExample('identity-providers/api-keys', settings, ['create', ...args]).ended
      expect(outcome).to.include({ exitCode: 0, stderr: '' })
      return outcome.stdout.trim()
    }

    it('api-keys accepts created keys until they are removed from the table', async () => {
      const ada = await create('ada', 'mcp:read', 'mcp:write')
      const bob = await create('bob')
      const table = await readFile(env.KEYS_FILE, 'utf8')
      for (const key of [ada, bob]) expect(table).not.to.include(key.split('.')[2])

      await using(start('api-keys', env), async ({ whoami, get }) => {
        const id = ada.split('.')[1] as string
        expect(said(await whoami(ada))).to.deep.equal({
          user: { id: 'ada' },
          key: id,
          scopes: ['mcp:read', 'mcp:write'],
        })
        expect((await whoami(bob)).status).to.equal(403)
        const [of, , secret] = bob.split('.')
        for (const wrong of [
          'eyJhbGciOiJub25lIn0.e30.',
          `${of}.${id}.${secret}`,
          `${of}.__proto__xxx.${secret}`,
        ])
          expect((await whoami(wrong)).status, wrong).to.equal(401)
        expect((await get(METADATA)).status).to.equal(404)

        const { [id]: mine, ...others } = JSON.parse(table)
        await writeFile(env.KEYS_FILE, JSON.stringify({ ...others, [id]: { ...mine, expiresAt: 1 } }))
        expect(challengeOf(await whoami(ada)).error_description).to.equal('The access token has expired')
        await writeFile(env.KEYS_FILE, JSON.stringify(others))
        expect((await whoami(ada)).status).to.equal(401)
        await writeFile(env.KEYS_FILE, 'half a tab')
        expect((await whoami(ada)).status).to.equal(503)
      })
    })
  })
})
