import { buffer } from 'node:stream/consumers'
import { expect } from 'chai'
import type { ClientId } from '../../cli/clients/profiles.ts'
import type { DoctorReport } from '../../cli/doctor/doctor.ts'
import type { ExaminationOptions } from '../../cli/doctor/examination.ts'
import {
  examineTarget,
  type Fault,
  type Incoming,
  look,
  type Outgoing,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { json, members } from '../support/cli/faults.ts'
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

interface Row {
  readonly what: string
  readonly fault: Fault
  readonly finds: readonly [status: 'ok' | 'warn' | 'fail', seen: RegExp, hint?: RegExp]
  /** The client for which the warning is a failure. */
  readonly failsAs?: ClientId
  /** A client for which it stays a warning. */
  readonly warnsAs?: ClientId
  /** A part of the path of the examined URL after `/mcp`. */
  readonly suffix?: string
}

/** Tests the result of one check for each server. */
function itChecks(id: string, rows: readonly Row[]): void {
  for (const { what, fault, finds, failsAs, warnsAs, suffix = '' } of rows) {
    const [status, seen, hint] = finds
    const examined = async (as?: ClientId) => {
      const target = await startTarget(fault)
      const url = new URL(`${target.url.href}${suffix}`)
      return findingOf(await examineTarget({ ...target, url }, { as, call: 'greet' }), id)
    }

    it(`${id} is "${status}" for ${what}`, async () => {
      const finding = await examined()
      expect(finding.status).to.equal(status)
      expect(finding.seen).to.match(seen)
      if (hint !== undefined) expect(finding.hint).to.match(hint)
    })
    if (failsAs !== undefined) {
      it(`${id} is "fail" with --as ${failsAs} for ${what}`, async () =>
        expect(await examined(failsAs)).to.include({ status: 'fail' }))
    }
    if (warnsAs !== undefined) {
      it(`${id} is "warn" with --as ${warnsAs} for ${what}`, async () =>
        expect(await examined(warnsAs)).to.include({ status: 'warn' }))
    }
  }
}

/** Responds like a firewall to the requests that match. */
const firewall = (blocks: (request: Incoming) => boolean, headers: Outgoing['headers']): Fault => ({
  instead: (request) =>
    blocks(request)
      ? { status: 403, headers: { 'content-type': 'text/plain', ...headers }, body: 'Blocked' }
      : undefined,
})

describe('doctor, for firewalls and spellings of the URL,', () => {
  itChecks('edge.user-agents', [
    { what: 'a correct server', fault: {}, finds: ['ok', /no User-Agent is blocked/] },
    {
      what: 'Cloudflare blocking Claude-User',
      fault: firewall((request) => agentOf(request) === 'Claude-User', { 'cf-ray': '8f0-FRA' }),
      finds: [
        'warn',
        /^User-Agent Claude-User: 403 text\/plain: "Blocked" from cloudflare, other requests: 401; affects Claude$/,
        /^Allow Claude-User in the firewall.*Block AI bots, and AI Crawl Control.*\(https:\/\/github\.com\/anthropics\/claude-ai-mcp\/issues\/1061\)$/,
      ],
      failsAs: 'claude',
      warnsAs: 'codex',
    },
    {
      what: 'a firewall that blocks the User-Agent of ChatGPT',
      fault: firewall((request) => agentOf(request)?.startsWith('openai-mcp') === true, { server: 'waf/2' }),
      finds: ['warn', /openai-mcp\/1\.0\.0: 403 text\/plain: "Blocked" from waf\/2/, /Allow openai-mcp/],
      failsAs: 'chatgpt',
      warnsAs: 'claude',
    },
    {
      what: 'a firewall that blocks requests without a User-Agent',
      fault: firewall((request) => agentOf(request) === undefined, {}),
      finds: [
        'warn',
        /^without User-Agent: 403 text\/plain: "Blocked", other requests: 401; affects Claude, older versions of Claude Code; \/\.well-known\/oauth-protected-resource\/mcp without User-Agent: 403/,
        /Accept requests without a User-Agent/,
      ],
      failsAs: 'claude',
      warnsAs: 'claude-code',
    },
    {
      what: 'a firewall that requires a User-Agent only for metadata',
      fault: firewall(
        (request) => agentOf(request) === undefined && request.path.startsWith('/.well-known/'),
        {},
      ),
      finds: [
        'warn',
        /^\/\.well-known\/oauth-protected-resource\/mcp without User-Agent: 403/,
        /below \/\.well-known\//,
      ],
      failsAs: 'claude',
    },
    {
      what: 'a User-Agent that makes the token unnecessary',
      fault: {
        instead: (request) =>
          agentOf(request) === 'Claude-User'
            ? json({ result: { protocolVersion: '2025-11-25' } })
            : undefined,
      },
      finds: ['fail', /Claude-User: 200, other requests: 401/, /require the token for every User-Agent/],
    },
  ])

  it('edge.user-agents is "warn" for a connection that is closed', async () => {
    const { origin } = await listen((req, res) => {
      if (req.headers['user-agent'] === 'Claude-User') res.destroy()
      else res.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    })
    const finding = findingOf(await look(new URL(`${origin}/mcp`)), 'edge.user-agents')
    expect(finding).to.include({ status: 'warn' })
    expect(finding.seen).to.contain('Claude-User: ECONNRESET')
  })

  itChecks('endpoint.trailing-slash', [
    { what: 'a correct server', fault: {}, finds: ['ok', /^\/mcp\/: 401$/] },
    {
      what: 'a URL with a slash whose other spelling redirects',
      suffix: '/',
      fault: {
        instead: ({ path }) =>
          path === '/mcp' ? { status: 307, headers: { location: '/mcp/' } } : undefined,
      },
      finds: [
        'warn',
        /^\/mcp: 307, with the other spelling 401; affects Claude$/,
        /Respond at both spellings.*issues\/1056/,
      ],
      failsAs: 'claude',
      warnsAs: 'cursor',
    },
    {
      what: 'a URL with a slash whose other spelling does not exist',
      suffix: '/',
      fault: { instead: ({ path }) => (path === '/mcp' ? { status: 404 } : undefined) },
      finds: ['warn', /^\/mcp: 404/],
      failsAs: 'claude',
    },
    {
      what: 'a URL without a slash whose other spelling redirects',
      fault: {
        instead: ({ path }) =>
          path === '/mcp/' ? { status: 308, headers: { location: '/mcp' } } : undefined,
      },
      finds: ['warn', /^\/mcp\/: 308/, /without a redirect/],
      warnsAs: 'claude',
    },
    {
      what: 'a URL without a slash whose other spelling does not exist',
      fault: { instead: ({ path }) => (path === '/mcp/' ? { status: 404 } : undefined) },
      finds: ['ok', /^\/mcp\/: 404/],
    },
    {
      what: 'a gate that does not protect the other spelling',
      fault: {
        instead: ({ path }) =>
          path === '/mcp/' ? json({ result: { protocolVersion: '2025-11-25' } }) : undefined,
      },
      finds: [
        'fail',
        /^\/mcp\/: 200 without a token, with the other spelling 401$/,
        /gate in front of both spellings/,
      ],
    },
  ])

  it('endpoint.trailing-slash is "ok" for a URL without a path', async () => {
    const { origin } = await listen((_req, res) => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end())
    const finding = findingOf(await look(new URL(origin)), 'endpoint.trailing-slash')
    expect(finding).to.include({ status: 'ok', seen: 'the URL has no path' })
  })
})

describe('doctor, for well-known URLs,', () => {
  const issuerPaths = ({ path }: Incoming) => /^\/\.well-known\/(?:oauth-a|openid)/.test(path)

  itChecks('wellknown.format', [
    { what: 'a correct server', fault: {}, finds: ['ok', /^5 URLs$/] },
    {
      what: 'a single-page application that responds to every path',
      fault: { instead: (request) => (issuerPaths(request) ? html() : undefined) },
      finds: [
        'warn',
        /\/\.well-known\/oauth-authorization-server\/mcp: 200 text\/html, which is not a JSON object/,
        /JSON or with 404/,
      ],
      failsAs: 'inspector',
      warnsAs: 'gemini',
    },
    {
      what: 'a gate in front of every path',
      fault: { instead: (request) => (issuerPaths(request) ? { status: 401 } : undefined) },
      finds: ['warn', /openid-configuration: 401, which requires a token/],
      failsAs: 'cursor',
    },
    {
      what: 'a redirect to a sign-in page',
      fault: {
        instead: (request) =>
          issuerPaths(request) ? { status: 302, headers: { location: '/login' } } : undefined,
      },
      finds: ['warn', /302, a redirect to \/login/],
      failsAs: 'claude',
    },
    {
      what: 'a JSON string instead of an object',
      fault: { instead: (request) => (issuerPaths(request) ? { body: '"hello"' } : undefined) },
      finds: ['warn', /which is not a JSON object/],
    },
    {
      what: 'an error of the server',
      fault: { instead: (request) => (issuerPaths(request) ? html(500) : undefined) },
      finds: ['warn', /500 text\/html/],
    },
    {
      what: 'other statuses that mean that there is nothing',
      fault: { instead: (request) => (issuerPaths(request) ? html(499) : undefined) },
      finds: ['ok', /^5 URLs$/],
    },
    {
      what: 'a page at the URL of the endpoint',
      fault: {
        instead: ({ method, path }) => (method === 'GET' && path === '/mcp' ? html() : undefined),
      },
      finds: [
        'warn',
        /^GET \/mcp without a token: 200 text\/html, which is not JSON; affects Codex, goose$/,
        /401 or 405/,
      ],
      failsAs: 'codex',
      warnsAs: 'claude',
    },
  ])
})

/** Serves the metadata of an issuer with a path at some of its forms. */
async function startTenant(forms: readonly string[]): Promise<string> {
  const { origin } = await listen((req, res) => {
    const known = forms.includes(req.url ?? '')
    res.writeHead(known ? 200 : 404, { 'content-type': 'application/json' })
    res.end(
      JSON.stringify({
        issuer: `${origin}/tenant`,
        authorization_endpoint: `${origin}/authorize`,
        token_endpoint: `${origin}/token`,
        response_types_supported: ['code'],
        code_challenge_methods_supported: ['S256'],
      }),
    )
  })
  return `${origin}/tenant`
}

describe('doctor, for what authorization servers support,', () => {
  for (const [what, forms, status, as, asStatus] of [
    ['RFC 8414', ['/.well-known/oauth-authorization-server/tenant'], 'ok', 'claude', 'ok'],
    ['OpenID in front of the path', ['/.well-known/openid-configuration/tenant'], 'ok', 'claude', 'ok'],
    ['OpenID after the path', ['/tenant/.well-known/openid-configuration'], 'warn', 'claude', 'fail'],
    ['OpenID after the path', ['/tenant/.well-known/openid-configuration'], 'warn', 'gemini', 'warn'],
  ] as const) {
    it(`issuer.path-forms is "${status}", and "${asStatus}" with --as ${as}, for metadata only at the form ${what}`, async () => {
      const issuer = await startTenant(forms)
      const target = await startTarget({ oauth: { authorizationServers: [issuer] } })
      const finding = findingOf(await look(target.url), 'issuer.path-forms')
      expect(finding.status).to.equal(status)
      expect(finding.seen).to.contain(forms[0])
      if (status === 'warn') expect(finding.hint).to.contain('/.well-known/oauth-authorization-server/tenant')
      expect(findingOf(await look(target.url, { as }), 'issuer.path-forms').status).to.equal(asStatus)
    })
  }

  itChecks('issuer.path-forms', [
    { what: 'an issuer without a path', fault: {}, finds: ['ok', /the issuer has no path/] },
  ])

  const withMethods = (methods: unknown): Fault => ({
    issuer: (document) => {
      document.client_id_metadata_document_supported = true
      if (methods !== undefined) document.token_endpoint_auth_methods_supported = methods
    },
  })
  itChecks('issuer.cimd', [
    {
      what: 'a server without client ID metadata documents',
      fault: {},
      finds: ['ok', /^not supported/],
    },
    { what: 'the method none', fault: withMethods(['none']), finds: ['ok', /the method none/] },
    {
      what: 'client ID metadata documents without authentication methods',
      fault: withMethods(undefined),
      finds: [
        'warn',
        /token_endpoint_auth_methods_supported is missing; affects Claude, Claude Code, Codex/,
        /add none/,
      ],
      failsAs: 'claude',
      warnsAs: 'vscode',
    },
    {
      what: 'client ID metadata documents with only a secret',
      fault: withMethods(['client_secret_basic']),
      finds: ['warn', /is client_secret_basic/],
      failsAs: 'codex',
    },
  ])

  const withScopes = (scopes: readonly string[]): Fault => ({
    issuer: members({ scopes_supported: scopes }),
  })
  itChecks('issuer.scopes', [
    { what: 'a server that lists no scopes', fault: {}, finds: ['ok', /lists no scopes/] },
    {
      what: 'the scopes of the resource and of OpenID Connect',
      fault: withScopes(['openid', 'offline_access', 'mcp:read', 'mcp:write']),
      finds: ['ok', /^4 scopes$/],
    },
    {
      what: 'a list without a scope of the resource',
      fault: withScopes(['openid', 'mcp:read']),
      finds: ['warn', /does not contain mcp:write; affects Gemini CLI, older versions of Codex/, /add them/],
      failsAs: 'gemini',
      warnsAs: 'codex',
    },
    {
      what: 'a list with scopes of other services',
      fault: withScopes(['mcp:read', 'mcp:write', 'billing', 'admin']),
      finds: ['warn', /2 other scopes: billing, admin/, /Gemini CLI/],
      warnsAs: 'codex',
    },
  ])
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

  const REFUSALS: readonly {
    readonly what: string
    readonly registrar: Registrar
    readonly seen: RegExp
    readonly hint: RegExp
    readonly failsAs: ClientId
  }[] = [
    {
      what: 'a server that rejects loopback redirect URIs',
      registrar: {
        register: ({ redirect_uris }) => (redirect_uris[0].startsWith('http://localhost:3118') ? 400 : {}),
      },
      seen: /registration with a loopback redirect URI and no scope: 400, invalid_redirect_uri/,
      hint: /without a scope/,
      failsAs: 'claude-code',
    },
    {
      what: 'a server that rejects the scheme of Cursor',
      registrar: {
        register: ({ redirect_uris }) => (redirect_uris[0].startsWith('cursor:') ? 400 : {}),
      },
      seen: /the redirect URIs of Cursor: 400, invalid_redirect_uri; affects Cursor/,
      hint: /Allow all three redirect URIs/,
      failsAs: 'cursor',
    },
    {
      what: 'a server that rejects offline_access',
      registrar: { register: ({ scope }) => (scope?.includes('offline_access') === true ? 400 : {}) },
      seen: /the scopes of the resource and offline_access: 400/,
      hint: /Allow offline_access/,
      failsAs: 'codex',
    },
    {
      what: 'a response with members that are null',
      registrar: { register: () => ({ contacts: null, jwks: null, logo_uri: '' }) },
      seen: /contains null in contacts, jwks and an empty string in logo_uri/,
      hint: /leave out members/,
      failsAs: 'claude-code',
    },
    {
      what: 'an unknown client that gets a 400 with invalid_client',
      registrar: { token: { status: 400, error: 'invalid_client' } },
      seen: /token request with an unknown client_id: 400, invalid_client/,
      hint: /clients register again only then/,
      failsAs: 'claude-code',
    },
    {
      what: 'an unknown client that gets a 400',
      registrar: { token: { status: 400, error: 'invalid_grant' } },
      seen: /token request with an unknown client_id: 400, invalid_grant/,
      hint: /401 and invalid_client/,
      failsAs: 'claude',
    },
  ]
  for (const { what, registrar, seen, hint, failsAs } of REFUSALS) {
    it(`issuer.register is "warn", and "fail" with --as ${failsAs}, for ${what}`, async () => {
      const { examine } = await startRegistrar(registrar)
      const finding = await examine()
      expect(finding.status).to.equal('warn')
      expect(finding.seen).to.match(seen)
      expect(finding.hint).to.match(hint)
      expect((await examine({ register: true, as: failsAs })).status).to.equal('fail')
      expect((await examine({ register: true, as: 'gemini' })).status).to.equal('warn')
    })
  }

  for (const [what, registrar, seen] of [
    ['a registration without a client ID', { register: () => ({ client_id: '' }) }, /without a client_id/],
    ['a token for an unknown client', { token: { status: 200 } }, /responds with 200 to an unknown/],
  ] as const) {
    it(`issuer.register is "fail" for ${what}`, async () => {
      const { examine } = await startRegistrar(registrar)
      const finding = await examine()
      expect(finding.status).to.equal('fail')
      expect(finding.seen).to.match(seen)
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
const listing = (tools: readonly object[]): Fault => ({
  instead: ({ message }) =>
    message?.method === 'tools/list'
      ? json({ result: { tools: tools.map((tool) => ({ inputSchema: { type: 'object' }, ...tool })) } })
      : undefined,
})
/** Replaces the result of the call. */
const result = (characters: number, tools?: Fault['instead']): Fault => ({
  instead: (request) =>
    request.message?.method === 'tools/call' && request.message.params.name === 'greet'
      ? json({ result: { content: [{ type: 'text', text: 'x'.repeat(characters) }] } })
      : tools?.(request),
})
const COMPLETE = { title: 'A tool', annotations: { readOnlyHint: true } }

describe('doctor, for tools,', () => {
  itChecks('tools.directory', [
    { what: 'a correct server', fault: {}, finds: ['ok', /^2 tools$/] },
    { what: 'a server without tools', fault: listing([]), finds: ['ok', /no tools/] },
    {
      what: 'a name of 64 characters',
      fault: listing([{ ...COMPLETE, name: 'a'.repeat(64) }]),
      finds: ['ok', /^1 tool$/],
    },
    {
      what: 'a name of 65 characters',
      fault: listing([{ ...COMPLETE, name: 'a'.repeat(65) }]),
      finds: ['warn', /more than 64: a{65}; affects Claude, Claude Code, ChatGPT, Codex/, /short names/],
      failsAs: 'claude',
      warnsAs: 'vscode',
    },
    {
      what: 'a name with a dot',
      fault: listing([{ ...COMPLETE, name: 'notes.list' }]),
      finds: ['warn', /notes\.list/],
      failsAs: 'chatgpt',
    },
    {
      what: 'a tool without a title',
      fault: listing([{ name: 'greet', annotations: { destructiveHint: false } }]),
      finds: ['warn', /^without a title: greet; the directories/, /openWorldHint/],
      warnsAs: 'claude',
    },
    {
      what: 'a title among the annotations',
      fault: listing([{ name: 'greet', annotations: { title: 'Greet', readOnlyHint: true } }]),
      finds: ['ok', /^1 tool$/],
    },
    {
      what: 'a tool without hints',
      fault: listing([{ name: 'greet', title: 'Greet', annotations: { readOnlyHint: 'yes' } }]),
      finds: ['warn', /^without readOnlyHint or destructiveHint: greet/],
      warnsAs: 'chatgpt',
    },
  ])

  const schema = { type: 'object', properties: { text: { type: 'string', description: 'x'.repeat(2_000) } } }
  /** Tools with these numbers of characters in their descriptions, and 4 in their names. */
  const described = (...lengths: readonly number[]): Fault => ({
    instead: ({ message }) =>
      message?.method === 'tools/list'
        ? json({
            result: {
              tools: lengths.map((length, index) => ({
                ...COMPLETE,
                name: `t${String(index).padStart(3, '0')}`,
                description: 'x'.repeat(length),
                inputSchema: { type: 'object' },
              })),
            },
          })
        : undefined,
  })
  const EMPTY_SCHEMA = '{"type":"object"}'.length
  const FIXED = 4 + EMPTY_SCHEMA

  itChecks('tools.size', [
    {
      what: 'a correct server',
      fault: {},
      finds: [
        'ok',
        /^2 tools, about \d+ tokens \(\d+ characters \/ 4\); the largest: \w+ \d+ \(schema \d+\), \w+ \d+ \(\w+ \d+\)$/,
      ],
    },
    { what: 'a server without tools', fault: listing([]), finds: ['ok', /no tools/] },
    {
      what: 'tools of different sizes',
      fault: described(40, 400, 4, 80),
      finds: [
        'ok',
        /; the largest: t001 106 \(description 100\), t003 26 \(description 20\), t000 16 \(description 10\)$/,
      ],
    },
    {
      what: 'a large schema',
      fault: listing([{ ...COMPLETE, name: 'long', inputSchema: schema }]),
      finds: ['ok', /the largest: long 5\d\d \(schema 5\d\d\)$/],
    },
    {
      what: 'members that clients do not send to models',
      fault: listing([{ ...COMPLETE, name: 'long', outputSchema: schema, _meta: schema }]),
      finds: ['ok', new RegExp(`^1 tool, about 6 tokens \\(${FIXED} characters`)],
    },
    { what: '10,000 tokens', fault: described(40_000 - FIXED), finds: ['ok', /about 10000 tokens/] },
    {
      what: '10,001 tokens',
      fault: described(40_001 - FIXED),
      finds: [
        'warn',
        /about 10001 tokens \(40001 characters \/ 4\); the largest: t000 10001 \(description \d+\)$/,
        /^shorten the descriptions and schemas.* above 10000 tokens \(https:\/\/platform\.claude\.com/,
      ],
      warnsAs: 'claude-code',
    },
    { what: '50 tools', fault: described(...Array(50).fill(1)), finds: ['ok', /^50 tools/] },
    {
      what: '51 tools',
      fault: described(...Array(51).fill(1)),
      finds: ['warn', /^51 tools/, /^offer fewer tools: Claude/],
    },
    {
      what: '128 tools',
      fault: described(...Array(128).fill(1)),
      finds: ['warn', /^128 tools/, /Claude/],
    },
    {
      what: '129 tools',
      fault: described(...Array(129).fill(1)),
      finds: ['warn', /^129 tools/, /^offer fewer tools: a request of VS Code has at most 128/],
      warnsAs: 'vscode',
    },
  ])

  itChecks('tools.result-size', [
    { what: 'a small result', fault: {}, finds: ['ok', /^\d+ characters, about \d+ tokens$/] },
    { what: '10,000 tokens', fault: result(40_000), finds: ['ok', /^40000 characters, about 10000/] },
    {
      what: '10,001 tokens',
      fault: result(40_001),
      finds: ['warn', /Claude Code warns above 10000 tokens/],
      warnsAs: 'claude-code',
    },
    {
      what: '25,001 tokens',
      fault: result(100_001),
      finds: [
        'warn',
        /about 25001 tokens: the rest after 25000 tokens is cut off; affects Claude Code/,
        /maxResultSizeChars/,
      ],
      failsAs: 'claude-code',
      warnsAs: 'claude',
    },
    {
      what: 'a tool that allows a large result',
      fault: result(
        120_000,
        listing([{ ...COMPLETE, name: 'greet', _meta: { 'anthropic/maxResultSizeChars': 120_000 } }]).instead,
      ),
      finds: ['ok', /^120000 characters/],
    },
    {
      what: '150,001 characters',
      fault: result(150_001),
      finds: ['warn', /150001 characters.*affects Claude/],
      failsAs: 'claude',
      warnsAs: 'vscode',
    },
  ])

  it('a result with structured content is measured by its response', async () => {
    const target = await startTarget({
      instead: ({ message }) =>
        message?.method === 'tools/call'
          ? json({ result: { content: [], structuredContent: { rows: 'x'.repeat(120_000) } } })
          : undefined,
    })
    const finding = findingOf(
      await look(target.url, { token: target.token, call: 'greet' }),
      'tools.result-size',
    )
    expect(finding.status).to.equal('warn')
  })
})
