import { buffer } from 'node:stream/consumers'
import { expect } from 'chai'
import type { ClientId } from '../../cli/doctor/clients.ts'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import type { ExaminationOptions } from '../../cli/doctor/examination.ts'
import {
  type DoctorTarget,
  type Fault,
  type Incoming,
  look,
  type Outgoing,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { json, members, metadata, on } from '../support/cli/faults.ts'
import { type ExaminedServer, Findings, itReports } from '../support/cli/recorded.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { listen } from '../support/listen.ts'

const findingOf = (report: DoctorReport, id: string) => {
  const finding = report.checks.find((check) => check.id === id)
  if (finding === undefined) throw new Error(`${id} did not run`)
  return { hint: '', ...finding }
}

const agentOf = ({ headers }: Incoming): string | undefined => headers['user-agent']
const html = (status = 200): Partial<Outgoing> => ({
  status,
  headers: { 'content-type': 'text/html' },
  body: '<!doctype html><title>App</title>',
})

/** Tests the result of one check for each server. */
const itChecks = (id: string, servers: Readonly<Record<string, ExaminedServer>>): void =>
  itReports('clients', servers, [id], () => ({ call: 'greet' }))

const withSlash = ({ url }: DoctorTarget): URL => new URL(`${url.href}/`)

/** Responds like a firewall to the requests that match. */
const firewall = (blocks: (request: Incoming) => boolean, headers: Outgoing['headers']): Fault =>
  on((request) => blocks(request), {
    status: 403,
    headers: { 'content-type': 'text/plain', ...headers },
    body: 'Blocked',
  })

describe('doctor, for firewalls and spellings of the URL,', () => {
  itChecks('edge.user-agents', {
    'a correct server': {},
    'Cloudflare blocking Claude-User': {
      ...firewall((request) => agentOf(request) === 'Claude-User', { 'cf-ray': '8f0-FRA' }),
      as: ['claude', 'codex'],
    },
    'a firewall that blocks the User-Agent of ChatGPT': {
      ...firewall((request) => agentOf(request)?.startsWith('openai-mcp') === true, { server: 'waf/2' }),
      as: ['chatgpt', 'claude'],
    },
    'a firewall that blocks requests without a User-Agent': {
      ...firewall((request) => agentOf(request) === undefined, {}),
      as: ['claude', 'claude-code'],
    },
    'a firewall that requires a User-Agent only for metadata': {
      ...firewall(
        (request) => agentOf(request) === undefined && request.path.startsWith('/.well-known/'),
        {},
      ),
      as: ['claude'],
    },
    'a User-Agent that makes the token unnecessary': on(
      (request) => agentOf(request) === 'Claude-User',
      json({ result: { protocolVersion: '2025-11-25' } }),
    ),
  })

  it('edge.user-agents is "warn" for a connection that is closed', async () => {
    const { origin } = await listen((req, res) => {
      if (req.headers['user-agent'] === 'Claude-User') res.destroy()
      else res.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    })
    const finding = findingOf(await look(new URL(`${origin}/mcp`)), 'edge.user-agents')
    expect(finding).to.include({ status: 'warn' })
    expect(finding.seen).to.contain('Claude-User: ECONNRESET')
  })

  itChecks('endpoint.trailing-slash', {
    'a correct server': {},
    'a URL with a slash whose other spelling redirects': {
      ...on(({ path }) => path === '/mcp', { status: 307, headers: { location: '/mcp/' } }),
      at: withSlash,
      as: ['claude', 'cursor'],
    },
    'a URL with a slash whose other spelling does not exist': {
      ...on(({ path }) => path === '/mcp', { status: 404 }),
      at: withSlash,
      as: ['claude'],
    },
    'a URL without a slash whose other spelling redirects': {
      ...on(({ path }) => path === '/mcp/', { status: 308, headers: { location: '/mcp' } }),
      as: ['claude'],
    },
    'a URL without a slash whose other spelling does not exist': on(({ path }) => path === '/mcp/', {
      status: 404,
    }),
    'a gate that does not protect the other spelling': on(
      ({ path }) => path === '/mcp/',
      json({ result: { protocolVersion: '2025-11-25' } }),
    ),
  })

  it('endpoint.trailing-slash is "ok" for a URL without a path', async () => {
    const { origin } = await listen((_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end())
    const finding = findingOf(await look(new URL(origin)), 'endpoint.trailing-slash')
    expect(finding).to.include({ status: 'ok', seen: 'the URL has no path' })
  })
})

describe('doctor, for well-known URLs,', () => {
  const issuerPaths = ({ path }: Incoming) => /^\/\.well-known\/(?:oauth-a|openid)/.test(path)

  itChecks('wellknown.format', {
    'a correct server': {},
    'a single-page application that responds to every path': {
      ...on((request) => issuerPaths(request), html()),
      as: ['inspector', 'gemini'],
    },
    'a gate in front of every path': {
      ...on((request) => issuerPaths(request), { status: 401 }),
      as: ['cursor'],
    },
    'a redirect to a sign-in page': {
      ...on((request) => issuerPaths(request), { status: 302, headers: { location: '/login' } }),
      as: ['claude'],
    },
    'a JSON string instead of an object': on((request) => issuerPaths(request), { body: '"hello"' }),
    'an error of the server': on((request) => issuerPaths(request), html(500)),
    'other statuses that mean that there is nothing': on((request) => issuerPaths(request), html(499)),
    'a page at the URL of the endpoint': {
      ...on(({ method, path }) => method === 'GET' && path === '/mcp', html()),
      as: ['codex', 'claude'],
    },
  })
})

/** An issuer with a path, whose metadata is only at one URL. */
const tenant = (form: string): ExaminedServer => ({
  alter: metadata(({ authorization_servers: issuers }) => {
    if (issuers !== undefined) issuers[0] += '/tenant'
  }),
  issuer: (document) => {
    document.issuer += '/tenant'
  },
  issuerAnswer: (path) => ({ status: path === form ? 200 : 404 }),
  as: ['claude', 'gemini'],
})

describe('doctor, for what authorization servers support,', () => {
  itChecks('issuer.path-forms', {
    'an issuer without a path': {},
    'metadata of RFC 8414': tenant('/.well-known/oauth-authorization-server/tenant'),
    'metadata of OpenID in front of the path': tenant('/.well-known/openid-configuration/tenant'),
    'metadata of OpenID after the path': tenant('/tenant/.well-known/openid-configuration'),
  })

  const withMethods = (methods: unknown): Fault => ({
    issuer: (document) => {
      document.client_id_metadata_document_supported = true
      if (methods !== undefined) document.token_endpoint_auth_methods_supported = methods
    },
  })
  itChecks('issuer.cimd', {
    'a server without client ID metadata documents': {},
    'the method none': withMethods(['none']),
    'client ID metadata documents without authentication methods': {
      ...withMethods(undefined),
      as: ['claude', 'vscode'],
    },
    'client ID metadata documents with only a secret': {
      ...withMethods(['client_secret_basic']),
      as: ['codex'],
    },
  })

  const withScopes = (scopes: readonly string[]): Fault => ({
    issuer: members({ scopes_supported: scopes }),
  })
  itChecks('issuer.scopes', {
    'a server that lists no scopes': {},
    'the scopes of the resource and of OpenID Connect': withScopes([
      'openid',
      'offline_access',
      'mcp:read',
      'mcp:write',
    ]),
    'a list without a scope of the resource': {
      ...withScopes(['openid', 'mcp:read']),
      as: ['gemini', 'codex'],
    },
    'a list with scopes of other services': {
      ...withScopes(['mcp:read', 'mcp:write', 'billing', 'admin']),
      as: ['codex'],
    },
  })
})

interface Registrar {
  readonly register?: (client: any) => Readonly<Record<string, unknown>> | number
  readonly token?: { readonly status: number; readonly error?: string }
}

/** Starts an authorization server that registers clients. */
async function startRegistrar({
  register = () => ({}),
  token = { status: 401, error: 'invalid_client' },
}: Registrar) {
  const requests: {
    readonly method: string
    readonly url: string
    readonly body: any
    readonly authorization?: string | undefined
  }[] = []
  const registrations: any[] = []
  const { origin } = await listen(async (req, res) => {
    const { method = '', url = '', headers } = req
    const body = (await buffer(req)).toString()
    requests.push({ method, url, body, authorization: headers.authorization })
    const send = (status: number, value: unknown) =>
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(value))
    if (url === '/register') {
      // Other checks send a body that is not JSON.
      if (!body.endsWith('}')) {
        send(400, { error: 'invalid_client_metadata' })
        return
      }
      const client = JSON.parse(body)
      registrations.push(client)
      const registered = register(client)
      if (typeof registered === 'number') send(registered, { error: 'invalid_redirect_uri' })
      else send(201, { client_id: 'new', ...client, ...registered })
    } else if (url === '/token') send(token.status, { error: token.error })
    else if (url === '/.well-known/oauth-authorization-server') {
      send(200, {
        issuer: origin,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        registration_endpoint: `${origin}/register`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
      })
    } else send(method === 'DELETE' ? 204 : 404, {})
  })
  const target = await startTarget({ oauth: { authorizationServers: [origin] } })
  const examine = async (changes: Partial<ExaminationOptions> = { register: true }) => {
    const report = await look(target.url, changes)
    return { report, ...findingOf(report, 'issuer.register') }
  }
  return { origin, requests, registrations, examine }
}

describe('doctor --register', () => {
  it('issuer.register is "skip" without --register, and no client is registered', async () => {
    const { registrations, examine } = await startRegistrar({})
    const { status, seen } = await examine({})
    expect({ status, seen }).to.deep.equal({
      status: 'skip',
      seen: 'only with --register, because it registers clients',
    })
    expect(registrations).to.deep.equal([])
  })

  it('issuer.register is "ok" for a server that registers every kind of client', async () => {
    const { registrations, examine } = await startRegistrar({})
    expect(await examine()).to.include({
      status: 'ok',
      seen: 'loopback, cursor://, no scope, and offline_access',
    })
    // The others are those of the checks of flaws.
    expect(registrations.slice(0, 3).map(({ scope }) => scope)).to.deep.equal([
      undefined,
      undefined,
      'mcp:read mcp:write offline_access',
    ])
    expect(registrations[1].redirect_uris[0]).to.equal('cursor://anysphere.cursor-mcp/oauth/callback')
  })

  const recording = new Findings('registration')
  const REFUSALS: Readonly<Record<string, Registrar & { readonly failsAs?: ClientId }>> = {
    'a server that rejects loopback redirect URIs': {
      register: ({ redirect_uris }) => (redirect_uris[0].startsWith('http://localhost:3118') ? 400 : {}),
      failsAs: 'claude-code',
    },
    'a server that rejects the scheme of Cursor': {
      register: ({ redirect_uris }) => (redirect_uris[0].startsWith('cursor:') ? 400 : {}),
      failsAs: 'cursor',
    },
    'a server that rejects offline_access': {
      register: ({ scope }) => (scope?.includes('offline_access') === true ? 400 : {}),
      failsAs: 'codex',
    },
    'a response with members that are null': {
      register: () => ({ contacts: null, jwks: null, logo_uri: '' }),
      failsAs: 'claude-code',
    },
    'an unknown client that gets a 400 with invalid_client': {
      token: { status: 400, error: 'invalid_client' },
      failsAs: 'claude-code',
    },
    'an unknown client that gets a 400': {
      token: { status: 400, error: 'invalid_grant' },
      failsAs: 'claude',
    },
    'a registration without a client ID': { register: () => ({ client_id: '' }) },
    'a token for an unknown client': { token: { status: 200 } },
  }
  for (const [what, { failsAs, ...registrar }] of Object.entries(REFUSALS)) {
    it(recording.titleOf(what), async () => {
      const { examine } = await startRegistrar(registrar)
      const { report } = await examine()
      recording.expect(what, report, ['issuer.register'])
      if (failsAs === undefined) return
      expect((await examine({ register: true, as: failsAs })).status).to.equal('fail')
      expect((await examine({ register: true, as: 'gemini' })).status).to.equal('warn')
    })
  }

  it('the registered clients are deleted, with their own tokens, and no secret is printed', async () => {
    const secrets = ['registration-token-of-client', 'secret-of-the-new-client']
    const { origin, requests, registrations, examine } = await startRegistrar({
      register: () => ({
        registration_client_uri: `${origin}/register/new`,
        registration_access_token: secrets[0],
        client_secret: secrets[1],
        client_id: secrets[1],
        contacts: null,
      }),
      token: { status: 400, error: secrets[1] as string },
    })
    const { report } = await examine()
    const deleted = requests.filter(({ method }) => method === 'DELETE')
    expect(deleted.map(({ url, authorization }) => `${url} ${authorization}`)).to.deep.equal(
      Array(registrations.length).fill(`/register/new Bearer ${secrets[0]}`),
    )
    expect(registrations).to.have.length.above(3)
    expectNoSecret(report, secrets)
  })

  it('a registration token is not sent to another host', async () => {
    const stolen: unknown[] = []
    const elsewhere = await listen((req, res) => {
      stolen.push(req.headers.authorization)
      res.end()
    })
    const { examine } = await startRegistrar({
      register: () => ({
        registration_client_uri: `${elsewhere.origin}/register/new`,
        registration_access_token: 'registration-token',
      }),
    })
    await examine()
    expect(stolen).to.deep.equal([])
  })
})

/** Replaces the list of tools. */
const listing = (tools: readonly object[]): Fault =>
  on(
    ({ message }) => message?.method === 'tools/list',
    json({ result: { tools: tools.map((tool) => ({ inputSchema: { type: 'object' }, ...tool })) } }),
  )
/** Replaces the result of the call. */
const result = (characters: number, tools?: Fault['instead']): Fault => ({
  instead: (request) =>
    request.message?.method === 'tools/call' && request.message.params.name === 'greet'
      ? json({ result: { content: [{ type: 'text', text: 'x'.repeat(characters) }] } })
      : tools?.(request),
})
const COMPLETE = { title: 'A tool', annotations: { readOnlyHint: true } }

describe('doctor, for tools,', () => {
  itChecks('tools.directory', {
    'a correct server': {},
    'a server without tools': listing([]),
    'a name of 64 characters': listing([{ ...COMPLETE, name: 'a'.repeat(64) }]),
    'a name of 65 characters': {
      ...listing([{ ...COMPLETE, name: 'a'.repeat(65) }]),
      as: ['claude', 'vscode'],
    },
    'a name with a dot': { ...listing([{ ...COMPLETE, name: 'notes.list' }]), as: ['chatgpt'] },
    'a tool without a title': {
      ...listing([{ name: 'greet', annotations: { destructiveHint: false } }]),
      as: ['claude'],
    },
    'a title among the annotations': listing([
      { name: 'greet', annotations: { title: 'Greet', readOnlyHint: true } },
    ]),
    'a tool without hints': {
      ...listing([{ name: 'greet', title: 'Greet', annotations: { readOnlyHint: 'yes' } }]),
      as: ['chatgpt'],
    },
  })

  const schema = { type: 'object', properties: { text: { type: 'string', description: 'x'.repeat(2_000) } } }
  /** Tools with these numbers of characters in their descriptions, and 4 in their names. */
  const described = (...lengths: readonly number[]): Fault =>
    listing(
      lengths.map((length, index) => ({
        ...COMPLETE,
        name: `t${String(index).padStart(3, '0')}`,
        description: 'x'.repeat(length),
      })),
    )
  const FIXED = 't000{"type":"object"}'.length

  itChecks('tools.size', {
    'a correct server': {},
    'a server without tools': listing([]),
    'tools of different sizes': described(40, 400, 4, 80),
    'a large schema': listing([{ ...COMPLETE, name: 'long', inputSchema: schema }]),
    'members that clients do not send to models': listing([
      { ...COMPLETE, name: 'long', outputSchema: schema, _meta: schema },
    ]),
    '10,000 tokens': described(40_000 - FIXED),
    '10,001 tokens': { ...described(40_001 - FIXED), as: ['claude-code'] },
    '50 tools': described(...Array(50).fill(1)),
    '51 tools': described(...Array(51).fill(1)),
    '128 tools': described(...Array(128).fill(1)),
    '129 tools': { ...described(...Array(129).fill(1)), as: ['vscode'] },
  })

  itChecks('tools.result-size', {
    'a small result': {},
    '10,000 tokens': result(40_000),
    '10,001 tokens': { ...result(40_001), as: ['claude-code'] },
    '25,001 tokens': { ...result(100_001), as: ['claude-code', 'claude'] },
    'a tool that allows a large result': result(
      120_000,
      listing([{ ...COMPLETE, name: 'greet', _meta: { 'anthropic/maxResultSizeChars': 120_000 } }]).instead,
    ),
    'structured content, which is measured by the response': on(
      ({ message }) => message?.method === 'tools/call',
      json({ result: { content: [], structuredContent: { rows: 'x'.repeat(120_000) } } }),
    ),
    '150,001 characters': { ...result(150_001), as: ['claude', 'vscode'] },
  })
})
