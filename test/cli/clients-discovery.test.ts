import { expect } from 'chai'
import { CLIENT_IDS, type ClientId } from '../../cli/doctor/clients.ts'
import type { Fault, Incoming } from '../support/cli/doctor-target.ts'
import { look, problemsOf, startTarget } from '../support/cli/doctor-target.ts'
import { challenge, metadata } from '../support/cli/faults.ts'
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
const firewall = (blocks: (request: Incoming) => boolean): Fault => ({
  instead: (request) =>
    blocks(request)
      ? { status: 403, headers: { 'content-type': 'text/plain', server: 'cloudflare' }, body: 'Blocked' }
      : undefined,
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
      instead: ({ path }) =>
        path === '/.well-known/oauth-protected-resource/mcp' ? { status: 404 } : undefined,
    },
    'an authorization server without metadata': {
      issuerAnswer: () => ({ status: 404 }),
    },
    'a redirect of the endpoint': {
      instead: (request) => (isEndpoint(request) ? { status: 307, headers: { location: '/x' } } : undefined),
    },
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
    'a server without resource metadata': {
      instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 404 } : undefined),
    },
  },
  codex: {
    'a GET that does not lead to the challenge, with metadata at another URL': {
      ...onlyAtChallenge,
      instead: ({ method, path }) => (method === 'GET' && path === '/mcp' ? { status: 405 } : undefined),
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
    const { seen, status } = await replay('claude-code', {
      instead: ({ method, path }) => (method === 'GET' && path === '/mcp' ? { status: 405 } : undefined),
    })
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
      instead: ({ path }) =>
        path === '/.well-known/oauth-authorization-server'
          ? {
              headers: { 'content-type': 'application/json' },
              body: JSON.stringify({
                issuer: 'https://auth.example.com',
                authorization_endpoint: 'https://auth.example.com/authorize',
                token_endpoint: 'https://auth.example.com/token',
                registration_endpoint: 'https://auth.example.com/register',
              }),
            }
          : undefined,
    })
    const report = await look(target.url, { as: 'claude' })
    expect(report.checks.find(({ id }) => id === 'client.discovery')?.status).to.equal('ok')
  })

  for (const [as, host] of [
    ['claude', 'server'],
    ['vscode', 'server'],
    ['claude-code', 'issuer'],
    ['cursor', 'issuer'],
  ] as const) {
    it(`${as} guesses the sign-in page on the host of the ${host}`, async () => {
      const target = await startTarget({ issuerAnswer: () => ({ status: 404 }) })
      const report = await look(target.url, { as })
      const seen = report.checks.find(({ id }) => id === 'client.discovery')?.seen
      expect(seen).to.contain(
        `opens ${host === 'server' ? target.url.origin : target.issuer}/authorize, which`,
      )
    })
  }

  it('a document behind a redirect is found, and both requests are listed', async () => {
    const { status, seen } = await replay('chatgpt', {
      instead: ({ path }) =>
        path === '/.well-known/oauth-protected-resource/mcp'
          ? { status: 302, headers: { location: '/.well-known/oauth-protected-resource' } }
          : undefined,
    })
    expect(status).to.equal('ok')
    expect(seen).to.contain('/mcp (302), GET /.well-known/oauth-protected-resource (200)')
  })

  it('a challenge with an error is a warning for Codex, and without one it is not', async () => {
    const withError = await replay('codex')
    expect(withError).to.include({ status: 'warn' })
    expect(withError.hint).to.contain("challengeWithoutToken: 'bare'")
    const bare = await replay('codex', {
      alter: challenge((value) =>
        value.replace(/error(?:_description)?="[^"]*",? ?/g, '').replace(/, *$/, ''),
      ),
    })
    expect(bare.status).to.equal('ok')
  })

  for (const [as, name, documents, methods] of [
    ['gemini', 'Gemini CLI', false, ['none']],
    ['gemini', 'Gemini CLI', true, ['none']],
    ['vscode', 'VS Code', false, ['none']],
    ['claude', 'Claude', true, ['client_secret_basic']],
  ] as const) {
    it(`an authorization server without registration, ${documents ? 'with' : 'without'} metadata documents, and with ${methods.join()} is a warning that suggests a client ID for ${as}`, async () => {
      const { status, seen, hint } = await replay(as, {
        issuer: (document) => {
          delete document.registration_endpoint
          document.client_id_metadata_document_supported = documents
          document.token_endpoint_auth_methods_supported = methods
        },
      })
      expect(status).to.equal('warn')
      expect(seen).to.contain('; it cannot register; it requests ')
      expect(hint).to.contain(`configure a client ID in ${name}`)
    })
  }

  for (const [as, methods, expected] of [
    ['claude', ['none'], 'it uses its client ID metadata document'],
    ['claude', ['client_secret_basic'], 'it registers dynamically'],
    ['cursor', ['none'], 'it registers dynamically'],
    ['vscode', ['client_secret_basic'], 'it uses its client ID metadata document'],
  ] as const) {
    it(`${as} says "${expected}" if the authentication methods are ${methods.join()}`, async () => {
      const { seen } = await replay(as, {
        issuer: (document) => {
          document.client_id_metadata_document_supported = true
          document.token_endpoint_auth_methods_supported = methods
        },
      })
      expect(seen).to.contain(expected)
    })
  }

  for (const [as, expected] of [
    ['claude', /the scopes mcp:read of the challenge/],
    ['gemini', /the scopes openid, billing of the authorization server/],
    ['codex', /the scopes mcp:read of the challenge/],
    ['claude-code', /the scopes mcp:read, mcp:write of the resource metadata/],
  ] as const) {
    it(`${as} requests the scopes that its profile describes`, async () => {
      const { seen } = await replay(as, {
        issuer: (document) => Object.assign(document, { scopes_supported: ['openid', 'billing'] }),
      })
      expect(seen).to.match(expected)
    })
  }

  it('ChatGPT without a scope in the resource metadata is a warning', async () => {
    const { status, hint } = await replay('chatgpt', {
      alter: metadata((document) => delete document.scopes_supported),
    })
    expect(status).to.equal('warn')
    expect(hint).to.contain('ChatGPT sends an empty scope')
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

  it('an endless chain of redirects ends the search for a document', async () => {
    const { status } = await replay('chatgpt', {
      instead: ({ path }) =>
        path.startsWith('/.well-known/') ? { status: 302, headers: { location: path } } : undefined,
    })
    expect(status).to.equal('fail')
  })

  it('metadata at a URL that is not safe to fetch is not requested', async () => {
    const { seen } = await replay('vscode', {
      alter: challenge((value) =>
        value.replace(/resource_metadata="[^"]*"/, 'resource_metadata="http://169.254.169.254/"'),
      ),
    })
    expect(seen).to.contain('GET http://169.254.169.254/ (not sent, because it is not https)')
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
