import { expect } from 'chai'
import { CLIENT_IDS, type ClientId } from '../../cli/doctor/clients.ts'
import type { Fault, Incoming } from '../support/cli/doctor-target.ts'
import { findingOf, look, problemsOf, startTarget } from '../support/cli/doctor-target.ts'
import { challenge, metadata, on } from '../support/cli/faults.ts'
import { itReports } from '../support/cli/recorded.ts'
import { listen } from '../support/listen.ts'

/** The result of replaying a client. */
async function replay(as: ClientId, fault: Fault = {}) {
  const target = await startTarget(fault)
  const report = await look(target.url, { as })
  const finding = report.checks.find(({ id }) => id === 'client.discovery')
  return { report, seen: finding?.seen ?? '', hint: finding?.hint ?? '', status: finding?.status }
}

const isEndpoint = ({ path }: Incoming): boolean => path === '/mcp'
const agentOf = ({ headers }: Pick<Incoming, 'headers'>): string | undefined => headers['user-agent']

/** Responds like a firewall to the requests that match. */
const firewall = (blocks: (request: Incoming) => boolean): Fault =>
  on((request) => blocks(request), {
    status: 403,
    headers: { 'content-type': 'text/plain', server: 'cloudflare' },
    body: 'Blocked',
  })

/** Serves the resource metadata only at the URL of the challenge. */
const onlyAtChallenge: Fault = { oauth: { resourceMetadataPath: '/metadata' } }

/** The servers at which a client stops. */
const STOPS: Readonly<Record<ClientId, Readonly<Record<string, Fault>>>> = {
  claude: {
    'a firewall that blocks Claude-User, which only the last request has': firewall(
      (request) => agentOf(request) === 'Claude-User',
    ),
    'resource metadata that is only at the root': {
      alter: challenge((value) => value.replace(/resource_metadata="[^"]*",? ?/, '')),
      ...on(({ path }) => path === '/.well-known/oauth-protected-resource/mcp', { status: 404 }),
    },
    'an authorization server without metadata': {
      issuerAnswer: () => ({ status: 404 }),
    },
    'a redirect of the endpoint': on((request) => isEndpoint(request), {
      status: 307,
      headers: { location: '/x' },
    }),
  },
  'claude-code': {
    'a firewall that blocks the User-Agent Bun, which only requests for metadata have': firewall(
      (request) => agentOf(request)?.startsWith('Bun/') === true,
    ),
    'a firewall that blocks the User-Agent of Claude Code, which only the last request has': firewall(
      (request) => agentOf(request)?.startsWith('claude-code/') === true,
    ),
    'metadata that is only at the URL of the challenge': onlyAtChallenge,
    'an authorization server that responds with 500': {
      issuerAnswer: () => ({ status: 500 }),
    },
  },
  chatgpt: {
    'an authorization server that does not list S256': {
      issuer: (document) => delete document.code_challenge_methods_supported,
    },
    'a server without resource metadata': on(({ path }) => path.startsWith('/.well-known/'), { status: 404 }),
  },
  codex: {
    'a GET that does not lead to the challenge, with metadata at another URL': {
      ...onlyAtChallenge,
      ...on(({ method, path }) => method === 'GET' && path === '/mcp', { status: 405 }),
      alter: challenge((value) => value.replace(/resource_metadata="[^"]*",? ?/, '')),
    },
    'an issuer with another name': {
      issuer: (document) => Object.assign(document, { issuer: 'https://other.example' }),
    },
    'a firewall that blocks the POST of Codex': firewall(
      (request) => request.method === 'POST' && agentOf(request)?.startsWith('codex-mcp-client/') === true,
    ),
  },
  cursor: {
    'metadata that is only at the URL of the challenge': onlyAtChallenge,
  },
  vscode: {
    'a resource that is only the origin': {
      alter: metadata((document) => {
        document.resource = new URL(document.resource).origin
      }),
    },
  },
  gemini: {
    'a resource with a slash at the end': {
      alter: metadata((document) => {
        document.resource += '/'
      }),
    },
  },
  inspector: {
    'an authorization server that responds with 503': {
      issuerAnswer: () => ({ status: 503 }),
    },
  },
}

/** Members of the metadata of the authorization server. */
const issuing = (changes: object): Fault => ({ issuer: (document) => Object.assign(document, changes) })
const registering = (documents: boolean, method: string, more: object = {}): Fault =>
  issuing({
    client_id_metadata_document_supported: documents,
    token_endpoint_auth_methods_supported: [method],
    ...more,
  })
const NO_REGISTRATION = { registration_endpoint: undefined }
const noIssuer: Fault = { issuerAnswer: () => ({ status: 404 }) }
const otherScopes = issuing({ scopes_supported: ['openid', 'billing'] })
/** Redirects the requests for a path. */
const moved = (isMoved: (path: string) => boolean, location?: string): Fault => ({
  instead: ({ path }) =>
    isMoved(path) ? { status: 302, headers: { location: location ?? path } } : undefined,
})

/** The servers, each with a client whose requests and remarks are recorded. */
const DISCOVERIES: Readonly<Record<string, Fault & { readonly as: ClientId }>> = {
  'a document behind a redirect': {
    as: 'chatgpt',
    ...moved((path) => path.endsWith('resource/mcp'), '/.well-known/oauth-protected-resource'),
  },
  'an endless chain of redirects': { as: 'chatgpt', ...moved((path) => path.startsWith('/.well-known/')) },
  'metadata at a URL that is not safe to fetch': {
    as: 'vscode',
    alter: challenge((value) =>
      value.replace(/resource_metadata="[^"]*"/, 'resource_metadata="http://169.254.169.254/"'),
    ),
  },
  'a challenge with an error': { as: 'codex' },
  'a challenge without an error': {
    as: 'codex',
    alter: challenge((value) => value.replace(/error(?:_description)?="[^"]*",? ?/g, '').replace(/, *$/, '')),
  },
  'neither registration nor metadata documents': {
    as: 'gemini',
    ...registering(false, 'none', NO_REGISTRATION),
  },
  'metadata documents, and no registration': { as: 'gemini', ...registering(true, 'none', NO_REGISTRATION) },
  'no registration': { as: 'vscode', ...registering(false, 'none', NO_REGISTRATION) },
  'metadata documents with a secret, and no registration': {
    as: 'claude',
    ...registering(true, 'client_secret_basic', NO_REGISTRATION),
  },
  'metadata documents': { as: 'claude', ...registering(true, 'none') },
  'metadata documents with a secret': { as: 'claude', ...registering(true, 'client_secret_basic') },
  'metadata documents and registration': { as: 'cursor', ...registering(true, 'none') },
  'metadata documents with a secret, without a rule': {
    as: 'vscode',
    ...registering(true, 'client_secret_basic'),
  },
  'other scopes of the authorization server': { as: 'claude', ...otherScopes },
  'scopes of the authorization server only': { as: 'gemini', ...otherScopes },
  'scopes of the resource': { as: 'claude-code', ...otherScopes },
  'no scopes of the resource': {
    as: 'chatgpt',
    alter: metadata((document) => delete document.scopes_supported),
  },
}

type RequestHead = Pick<Incoming, 'method' | 'path' | 'headers'>

/** The requests that clients sent in a run, up to the sign-in, and the first one after it. */
const RECORDED: readonly { readonly as: ClientId; readonly runs: readonly string[] }[] = [
  {
    as: 'claude-code',
    runs: [
      'GET /.well-known/oauth-protected-resource/mcp | Bun/1.4.0 | */* | 2025-11-25',
      'GET /.well-known/oauth-authorization-server | Bun/1.4.0 | application/json | 2025-11-25',
      'POST /mcp | claude-code/2.1.197 (sdk-cli) | application/json, text/event-stream | none',
    ],
  },
  {
    as: 'codex',
    runs: [
      'GET /mcp | codex-mcp-client/0.169.0 | */* | 2024-11-05',
      'GET /.well-known/oauth-protected-resource/mcp | codex-mcp-client/0.169.0 | */* | 2024-11-05',
      'GET /.well-known/oauth-authorization-server | codex-mcp-client/0.169.0 | */* | 2024-11-05',
      'POST /mcp | codex-mcp-client/0.169.0 | application/json, text/event-stream | none',
    ],
  },
  {
    as: 'gemini',
    runs: [
      'POST /mcp | node | application/json, text/event-stream | none',
      'HEAD /mcp | node | application/json | none',
      'GET /.well-known/oauth-protected-resource/mcp | node | */* | none',
      'GET /.well-known/oauth-authorization-server | node | */* | none',
    ],
  },
  {
    as: 'inspector',
    runs: [
      'POST /mcp | node | application/json, text/event-stream | none',
      'GET /.well-known/oauth-protected-resource/mcp | node | */* | 2025-11-25',
      'GET /.well-known/oauth-authorization-server | node | application/json | 2025-11-25',
    ],
  },
]

/** Describes a request in the form of the recorded ones. */
function lineOf({ method, path, headers }: RequestHead): string {
  const version = headers['mcp-protocol-version'] ?? 'none'
  return `${method} ${path} | ${headers['user-agent'] ?? 'none'} | ${headers.accept ?? 'none'} | ${version}`
}

describe('doctor --as', () => {
  for (const as of CLIENT_IDS) {
    it(`a correct server has no failures as ${as}, and the report lists each request`, async () => {
      const { report, seen, status } = await replay(as)
      expect(report.summary.fail).to.equal(0)
      expect(status).to.equal(as === 'codex' ? 'warn' : 'ok')
      expect(seen).to.match(
        /gets to the sign-in after \d requests: (?:.*, )?(?:POST|GET) \/mcp with User-Agent \S.* \(401\)[,;]/,
      )
      expect(seen).to.contain('GET /.well-known/oauth-protected-resource/mcp (200)')
      expect(seen).to.contain('/.well-known/oauth-authorization-server (200)')
    })

    it(`a server that requires no token lets ${as} connect without a sign-in`, async () => {
      const { seen, status } = await replay(as, { open: true, instead: noStream })
      expect(status).to.equal('ok')
      expect(seen).to.contain('connects without a sign-in')
    })
  }

  for (const as of CLIENT_IDS) {
    const servers = Object.entries(STOPS[as]).map(([name, fault]) => [`${name}, as ${as}`, fault])
    itReports('stops', Object.fromEntries(servers), ['client.discovery'], () => ({ as, token: undefined }))
  }

  it('the requests have the headers of the client, and no token', async () => {
    const received: Incoming[] = []
    const target = await startTarget({
      alter: (_answer, request) => {
        received.push(request)
      },
    })
    await look(target.url, { as: 'vscode', token: target.token })
    const own = received.filter((request) => agentOf(request)?.startsWith('Visual Studio Code/') === true)
    expect(own.map(({ method, path }) => `${method} ${path}`)).to.deep.equal([
      'POST /mcp',
      'GET /.well-known/oauth-protected-resource/mcp',
    ])
    expect(own[1]?.headers).to.include({ accept: 'application/json', 'mcp-protocol-version': '2025-11-25' })
    for (const { headers } of own) expect(headers.authorization).to.equal(undefined)
  })

  for (const { as, runs } of RECORDED) {
    it(`the requests as ${as} are those that a run of the client sent, in the same order`, async () => {
      const received: string[] = []
      const issuerRequests: string[] = []
      const isOwn = (request: RequestHead) =>
        runs.some((line) => line.split(' | ')[1] === (agentOf(request) ?? 'none'))
      const target = await startTarget({
        alter: (_answer, request) => {
          if (isOwn(request)) received.push(lineOf(request))
        },
        issuerAnswer: (path, { method = '', headers }) => {
          const request = { method, path, headers }
          if (isOwn(request)) issuerRequests.push(lineOf(request))
          return undefined
        },
      })
      await look(target.url, { as })
      const isIssuer = (line: string) => line.includes('/.well-known/oauth-authorization-server')
      expect(received).to.deep.equal(runs.filter((line) => !isIssuer(line)))
      expect(issuerRequests).to.deep.equal(runs.filter(isIssuer))
    })
  }

  it('a client that starts its sign-in without a request finds metadata of a GET that gets a 405', async () => {
    const { seen, status } = await replay(
      'claude-code',
      on(({ method, path }) => method === 'GET' && path === '/mcp', { status: 405 }),
    )
    expect(status).to.equal('ok')
    expect(seen).to.match(/after 3 requests: GET .*, POST \/mcp with User-Agent claude-code\/.*\(401\)/)
  })

  it('the Inspector reads metadata that is only at the URL of the challenge', async () => {
    const { seen, status } = await replay('inspector', onlyAtChallenge)
    expect(status).to.equal('ok')
    expect(seen).to.match(/GET \/metadata\S* \(200\)/)
  })

  it('Claude finds the copy of the metadata on the host of the server', async () => {
    const target = await startTarget({
      issuerAnswer: () => ({ status: 404 }),
      ...on(({ path }) => path === '/.well-known/oauth-authorization-server', {
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          issuer: 'https://auth.example.com',
          authorization_endpoint: 'https://auth.example.com/authorize',
          token_endpoint: 'https://auth.example.com/token',
          registration_endpoint: 'https://auth.example.com/register',
        }),
      }),
    })
    const report = await look(target.url, { as: 'claude' })
    expect(report.checks.find(({ id }) => id === 'client.discovery')?.status).to.equal('ok')
  })

  const discovered = Object.entries(DISCOVERIES).map(([name, { as, ...fault }]) => [
    `${name}, as ${as}`,
    { ...fault, asked: { as, token: undefined } },
  ])
  itReports('discovery', Object.fromEntries(discovered), ['client.discovery'], () => ({}))

  for (const as of ['vscode', 'cursor'] as const)
    it(`${as} guesses the sign-in page on the host of the ${as === 'vscode' ? 'server' : 'issuer'}`, async () => {
      const target = await startTarget(noIssuer)
      const seen = findingOf(await look(target.url, { as }), 'client.discovery')?.seen
      expect(seen).to.contain(`opens ${as === 'vscode' ? target.url.origin : target.issuer}/authorize, which`)
    })

  it('a client that connects from the internet is mentioned for a server on loopback', async () => {
    expect((await replay('claude')).seen).to.contain('needs a public URL of this server')
    expect((await replay('codex')).seen).not.to.contain('public URL')
  })

  it('a server that closes the connection stops the client at the first request', async () => {
    const { origin } = await listen((req, res) => {
      if (req.headers['user-agent'] === 'node') res.destroy()
      else res.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    })
    const report = await look(new URL(`${origin}/mcp`), { as: 'cursor' })
    const finding = report.checks.find(({ id }) => id === 'client.discovery')
    expect(finding?.seen).to.match(/^Cursor stops at request 1, .*\(ECONNRESET\): no response/)
  })

  it('without --as, no client is replayed', async () => {
    const report = await look((await startTarget()).url)
    const finding = report.checks.find(({ id }) => id === 'client.discovery')
    expect(finding).to.include({ status: 'skip', seen: 'only with --as' })
    expect(problemsOf(report)).to.deep.equal([])
  })
})

/** The test server sends a stream only when it ends, so that a GET would never get a response. */
function noStream({ method, path, headers }: Incoming) {
  const opensStream = method === 'GET' && path === '/mcp' && headers.accept !== 'application/json'
  return opensStream ? { status: 405 } : undefined
}
