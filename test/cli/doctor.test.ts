import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { createServer as createTcpServer } from 'node:net'
import { mcpAuthMetadataRouter, requireBearerAuth } from '@modelcontextprotocol/express'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { McpServer as McpServerV1 } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import { createMcpHandler, McpServer, OAuthError, OAuthErrorCode } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import express, { type Express } from 'express'
import { CHECKS } from '../../cli/doctor/checks.ts'
import { startAuthorizationServer } from '../../examples/authorization-server.ts'
import { Browser } from '../../examples/clients.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpAuth, mcpCors, mcpHandler } from '../../src/index.ts'
import { selfSigned } from '../support/certificates.ts'
import {
  examineTarget,
  findingOf,
  type Incoming,
  look,
  problemsOf,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { on } from '../support/cli/faults.ts'
import { Findings } from '../support/cli/recorded.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { listen } from '../support/listen.ts'

describe('doctor', () => {
  it('reports no problems for a correct server', async () => {
    const report = await examineTarget(await startTarget())
    expect(problemsOf(report)).to.deep.equal([])
    const skipped = report.checks.filter(({ status }) => status === 'skip').map(({ id }) => id)
    const card = ['card.valid', 'card.remote', 'card.discover', 'card.catalog', 'card.cors']
    const registered = [
      'registration',
      'upstream-pkce',
      'upstream-context',
      'pkce',
      'consent',
      'upstream-state',
    ]
    const flaws = registered.map((flaw) => `flaw.${flaw}`)
    expect(skipped).to.have.members([
      'issuer.register',
      'token.login',
      'session.other-user',
      ...card,
      ...CHECKS.filter(({ group }) => group === 'Events').map(({ id }) => id),
      ...flaws,
      'flaw.code-replay',
      'client.discovery',
    ])
    expect(report.verdict).to.equal('ok')
  })

  it('runs as many checks as possible without a token, and says that the others need one', async () => {
    const report = await look((await startTarget()).url)
    expect(problemsOf(report)).to.deep.equal([])
    expect(findingOf(report, 'token.forged')?.status).to.equal('ok')
    expect(findingOf(report, 'cors.headers')?.status).to.equal('ok')
    expect(findingOf(report, 'protocol.revisions')).to.include({ status: 'skip' })
    expect(findingOf(report, 'protocol.revisions')?.seen).to.contain('--token-env or --login')
  })

  it('calls no tool except that of --call', async () => {
    const called: unknown[] = []
    const target = await startTarget({
      alter: (_answer, { message }) => {
        if (message?.method === 'tools/call') called.push(message.params.name)
      },
    })
    const { weakToken: _, ...rest } = target
    await look(rest.url, { token: rest.token })
    expect(called).to.deep.equal([])
    await look(rest.url, { token: rest.token, call: 'greet' })
    expect(called).to.deep.equal(['greet'])
  })

  for (const [what, open] of [
    ['a server', undefined],
    ['an open server', true],
  ] as const) {
    it(`examines ${what} that supports only 2026-07-28`, async () => {
      const target = await startTarget({
        ...(open && { open }),
        alter: (answer, { headers }) => {
          if (answer.status !== 200 || headers['mcp-protocol-version'] === '2026-07-28') return
          if (headers['content-type'] === undefined) return
          answer.status = 400
          answer.headers['content-type'] = 'application/json'
          answer.body = '{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"unsupported"}}'
        },
      })
      const report = open ? await look(target.url) : await examineTarget(target)
      // The open server still publishes metadata of a protected resource.
      expect(problemsOf(report)).to.deep.equal(open ? ['auth.required: fail'] : [])
      expect(findingOf(report, 'protocol.revisions')?.seen).to.match(/^2026-07-28; not 2025-03-26 \(400\)/)
      expect(findingOf(report, 'call.tools-list')?.status).to.equal('ok')
    })
  }

  it('follows redirects of a metadata document only to URLs that are safe to fetch', async () => {
    const asked: string[] = []
    const elsewhere = await listen((req, res) => {
      asked.push(req.url ?? '')
      res.end()
    })
    const moved = (location: string) =>
      on(
        ({ method, path }: Incoming) =>
          method === 'GET' && path === '/.well-known/oauth-protected-resource/mcp',
        { status: 307, headers: { location } },
      )
    const followed = await look((await startTarget(moved('/.well-known/oauth-protected-resource'))).url)
    expect(problemsOf(followed)).to.deep.equal(['wellknown.format: warn'])
    for (const location of [
      'http://mcp.example.com/',
      'http://[',
      'http://ada:pw@127.0.0.1/',
      '/.well-known/oauth-protected-resource/mcp',
    ]) {
      const report = await look((await startTarget(moved(location))).url)
      expect(problemsOf(report), location).to.deep.equal(['metadata.found: fail', 'wellknown.format: warn'])
    }
    await look((await startTarget(moved(`${elsewhere.origin}/moved`))).url, { token: 'secret-token' })
    expect(asked).to.deep.equal(['/moved'])
  })

  it('accepts a closed connection as the rejection of an unknown host name', async () => {
    const { origin } = await listen((req, res) => {
      if (req.headers.host?.startsWith('attacker') === true) res.destroy()
      else res.writeHead(401, { 'www-authenticate': 'Bearer' }).end()
    })
    const report = await look(new URL(`${origin}/mcp`))
    expect(findingOf(report, 'host.foreign')).to.include({ status: 'ok', seen: 'the connection was closed' })
  })

  it('uses the session of a server that supports sessions, and ends the sessions that it opened', async () => {
    const open = new Map<string, StreamableHTTPServerTransport>()
    const { origin } = await listen(async (req, res) => {
      const id = req.headers['mcp-session-id']
      const known = open.get(String(id))
      if (known !== undefined) return await known.handleRequest(req, res)
      if (id !== undefined) return res.writeHead(404).end()
      const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (opened) => void open.set(opened, transport),
        onsessionclosed: (closed) => void open.delete(closed),
      })
      const server = new McpServerV1({ name: 'sessions', version: '1.0.0' })
      server.registerTool('ping_me', {}, () => ({ content: [] }))
      await server.connect(transport as Parameters<typeof server.connect>[0])
      await transport.handleRequest(req, res)
    })
    const report = await look(new URL(`${origin}/mcp`))
    expect(findingOf(report, 'call.round-trip')?.seen).to.match(/^ping of 2025-11-25/)
    expect(findingOf(report, 'call.tools-list')?.seen).to.match(/^1 tool,/)
    expect([...open.keys()]).to.deep.equal([])
  })

  it('adds a remark about a slow response, without changing the status', async () => {
    const { origin } = await listen((_req, res) => {
      setTimeout(() => res.writeHead(401, { 'www-authenticate': 'Bearer' }).end(), 40)
    })
    const report = await look(new URL(`${origin}/mcp`), { slowMs: 20 })
    expect(findingOf(report, 'server.reachable')).to.include({ status: 'ok' })
    expect(findingOf(report, 'server.reachable')?.seen).to.match(
      /^401 within \d+ ms; slow: the server took 0\.\d s to respond to POST$/,
    )
    expect(findingOf(report, 'server.endpoint')?.seen).to.equal('401: it is protected')
    const fast = await look(new URL(`${origin}/mcp`))
    expect(fast.checks.filter(({ seen }) => seen.includes('slow'))).to.deep.equal([])
  })

  describe('for a server of the transport HTTP+SSE,', () => {
    /** A server of revision 2024-11-05. @param event the first event of its stream, if any */
    const startLegacy = async (event: string | undefined, token?: string) => {
      const { origin } = await listen((req, res) => {
        if (token !== undefined && req.headers.authorization !== `Bearer ${token}`) {
          res.writeHead(401, { 'www-authenticate': 'Bearer error="invalid_token"' }).end()
        } else if (req.method === 'GET' && req.url === '/sse') {
          res.writeHead(200, { 'content-type': 'text/event-stream' })
          res.write(': hello\n\n')
          if (event !== undefined) res.write(`event: ${event}\ndata: /messages?sessionId=1\n\n`)
        } else res.writeHead(404).end()
      })
      return new URL(`${origin}/sse`)
    }

    for (const [what, token, id] of [
      ['without a token', undefined, 'server.endpoint'],
      ['that requires a token', 'a-good-token', 'protocol.revisions'],
    ] as const) {
      it(`names the transport of a server ${what}`, async () => {
        const report = await look(await startLegacy('endpoint', token), { token })
        expect(findingOf(report, id)?.status).to.equal('fail')
        expect(findingOf(report, id)?.seen).to.equal(
          '404 for a POST; a GET opens the HTTP+SSE transport of revision 2024-11-05 (event: endpoint)',
        )
        expect(findingOf(report, id)?.hint).to.match(/^serve Streamable HTTP, which replaced it/)
      })
    }

    for (const [what, event] of [
      ['other events', 'message'],
      ['no event', undefined],
    ] as const) {
      it(`does not name the transport if the stream has ${what}`, async () => {
        const report = await look(await startLegacy(event), { timeoutMs: 300 })
        expect(findingOf(report, 'server.endpoint')?.seen).to.equal('404 for a POST')
      })
    }
  })

  describe('for servers of other packages,', () => {
    const server = () => {
      const made = new McpServer({ name: 'official', version: '1.0.0' })
      made.registerTool('whoami', { description: 'Returns the name of the caller' }, () => ({
        content: [{ type: 'text', text: 'you' }],
      }))
      return made
    }

    it('reports missing CORS and Origin checks of the middleware of the official SDK', async () => {
      const { issuer } = await startTarget()
      const app = express()
      app.set('env', 'test')
      const { origin } = await listen(app)
      const resource = `${origin}/mcp`
      protectBySdk(app, issuer, resource, toNodeHandler(createMcpHandler(server)))
      const report = await look(new URL(resource), { token: 'right' })
      expect(problemsOf(report)).to.deep.equal([
        'tools.directory: warn',
        'cors.preflight: warn',
        'origin.foreign: warn',
        'host.foreign: warn',
      ])
      expect(findingOf(report, 'protocol.revisions')?.seen).to.contain('2026-07-28')
      expect(findingOf(report, 'call.tools-list')?.seen).to.match(/^1 tool,/)
    })

    it('warns about a server that requires no token', async () => {
      const app = express()
      const { origin } = await listen(app)
      app.use('/mcp', mcpHandler(createMcpAdapter({ router: KitMcpRouter.create() })))
      const report = await look(new URL(`${origin}/mcp`))
      expect(problemsOf(report)).to.deep.equal(['auth.required: warn'])
      expect(findingOf(report, 'call.round-trip')?.status).to.equal('ok')
      expect(findingOf(report, 'metadata.found')?.status).to.equal('skip')
    })

    it('reports an open server that does not check Origin and Host', async () => {
      const handle = toNodeHandler(createMcpHandler(server))
      const { origin } = await listen((req, res) => void handle(req as Parameters<typeof handle>[0], res))
      const report = await look(new URL(`${origin}/mcp`))
      expect(problemsOf(report)).to.include.members(['origin.foreign: fail', 'host.foreign: fail'])
    })
  })

  describe('for a server that does not respond correctly,', () => {
    const findings = new Findings('broken-servers')
    for (const [what, respond] of Object.entries({
      'a server that does not respond': () => undefined,
      'a server that closes the connection': (_req, res) => void res.destroy(),
      'a server that responds with a web page': (_req, res) =>
        res.setHeader('content-type', 'text/html').end('<h1>Hello</h1>'),
      'a server that redirects': (_req, res) =>
        res.writeHead(308, { location: 'https://example.com/mcp' }).end(),
    } satisfies Record<string, RequestListener>))
      it(findings.titleOf(what), async () => {
        const { origin } = await listen(respond)
        findings.expect(what, await look(new URL(`${origin}/mcp`), { timeoutMs: 200 }))
      })

    it('reports a port on which no server listens', async () => {
      const tcp = createTcpServer().listen(0, '127.0.0.1')
      await once(tcp, 'listening')
      const { port } = tcp.address() as AddressInfo
      tcp.close()
      await once(tcp, 'close')
      const report = await look(new URL(`http://127.0.0.1:${port}/mcp`))
      expect(problemsOf(report)).to.deep.equal(['server.reachable: fail'])
      expect(findingOf(report, 'server.reachable')?.hint).to.match(/start the server/)
      expect(report.summary.skip).to.equal(report.checks.length - 1)
    })

    it('reports a server that does not use HTTP', async () => {
      const tcp = createTcpServer((socket) => socket.end('SSH-2.0-OpenSSH_9.9\r\n')).listen(0, '127.0.0.1')
      await once(tcp, 'listening')
      const { port } = tcp.address() as AddressInfo
      try {
        const report = await look(new URL(`http://127.0.0.1:${port}/mcp`))
        expect(problemsOf(report)).to.deep.equal(['server.reachable: fail'])
        expect(findingOf(report, 'server.reachable')?.hint).to.match(/not HTTP/)
      } finally {
        tcp.close()
      }
    })
  })

  describe('over TLS,', () => {
    let tls: TlsServer
    let url: URL
    let authorizations: unknown[]

    beforeEach(async () => {
      authorizations = []
      tls = createTlsServer(selfSigned(), (req, res) => {
        authorizations.push(req.headers.authorization)
        res.writeHead(401).end()
      }).listen(0, '127.0.0.1')
      await once(tls, 'listening')
      url = new URL(`https://127.0.0.1:${(tls.address() as AddressInfo).port}/mcp`)
    })
    afterEach(() => {
      tls.close()
      tls.closeAllConnections()
    })

    it('sends nothing to a server with an untrusted certificate', async () => {
      const report = await look(url, { token: 'not-for-strangers' })
      expect(problemsOf(report)).to.deep.equal(['server.tls: fail'])
      const finding = findingOf(report, 'server.tls')
      expect(finding?.seen).to.match(/SELF_SIGNED/)
      expect(finding?.hint).to.match(/NODE_EXTRA_CA_CERTS/)
      expect(authorizations).to.deep.equal([])
    })

    it('reports a server that does not support TLS', async () => {
      const plain = await listen((_req, res) => res.end())
      const report = await look(new URL(`https://127.0.0.1:${plain.port}/mcp`))
      expect(problemsOf(report)).to.deep.equal(['server.reachable: fail'])
      expect(findingOf(report, 'server.reachable')?.hint).to.match(/does not support TLS/)
    })
  })

  it('signs in and uses the token for the remaining checks', async () => {
    const { report, secrets } = await signIn({})
    expect(problemsOf(report)).to.deep.equal([])
    expect(findingOf(report, 'token.claims')?.seen).to.match(/^no difference found in aud, iss, exp, /)
    expect(findingOf(report, 'token.login')?.seen).to.equal('a token with the scopes mcp:read')
    expect(findingOf(report, 'token.accepted')?.status).to.equal('ok')
    expect(findingOf(report, 'call.tools-list')?.status).to.equal('ok')
    expect(findingOf(report, 'flaw.code-replay')?.status).to.equal('ok')
    expect(secrets.length).to.be.greaterThan(0)
    expectNoSecret(report, secrets)
  })

  it('signs in with a registered client', async () => {
    const { report } = await signIn({ clientId: 'notes-demo' })
    expect(problemsOf(report)).to.deep.equal([])
    expect(findingOf(report, 'token.accepted')?.status).to.equal('ok')
  })

  for (const [what, parameters, seen] of [
    [
      'the user denies access',
      { error: 'access_denied' },
      'the authorization server returned the error access_denied',
    ],
    ['the code is invalid', { code: 'secret-code' }, 'the sign-in failed: OAUTH_RESPONSE_IS_NOT_CONFORM'],
  ] as const) {
    it(`reports that ${what}, and ignores requests that are not the redirect`, async () => {
      const target = await startTarget()
      const visits: Promise<unknown>[] = []
      const report = await look(target.url, {
        login: { redirectPort: 0, clientId: 'doctor' },
        print: (text) => visits.push(answerSignIn(text, parameters)),
      })
      expect(await Promise.all(visits)).to.deep.equal([[404, 404, 200]])
      expect(problemsOf(report)).to.deep.equal(['token.login: fail'])
      expect(findingOf(report, 'token.login')?.seen).to.equal(seen)
      expectNoSecret(report, ['secret-code'])
    })
  }

  it('suggests --client-id if the authorization server does not register clients', async () => {
    const target = await startTarget({ issuer: (document) => delete document.registration_endpoint })
    const report = await look(target.url, { login: { redirectPort: 0 } })
    expect(problemsOf(report)).to.deep.equal(['issuer.registration: warn', 'token.login: fail'])
    expect(findingOf(report, 'token.login')?.hint).to.contain('--client-id')
  })
})

function protectBySdk(
  app: Express,
  issuer: string,
  resource: string,
  serve: ReturnType<typeof toNodeHandler>,
): void {
  const { origin, pathname } = new URL(resource)
  const gate = requireBearerAuth({
    verifier: {
      async verifyAccessToken(token) {
        if (token !== 'right') throw new OAuthError(OAuthErrorCode.InvalidToken, 'Unknown token')
        return { token, clientId: 'doctor', scopes: ['mcp:read'], expiresAt: Date.now() / 1000 + 300 }
      },
    },
    requiredScopes: ['mcp:read'],
    resourceMetadataUrl: `${origin}/.well-known/oauth-protected-resource${pathname}`,
  })
  app.use(
    mcpAuthMetadataRouter({
      oauthMetadata: {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        response_types_supported: ['code'],
      },
      resourceServerUrl: new URL(resource),
      scopesSupported: ['mcp:read'],
    }),
  )
  app.use('/mcp', gate, (req, res) => void serve(req as Parameters<typeof serve>[0], res))
}

/** Examines a server with a real authorization server and a user who opens the printed URL. */
async function signIn(client: { readonly clientId?: string }) {
  const secrets: string[] = []
  const app = express()
  const { origin } = await listen((req, res) => {
    const token = /^Bearer (ey\S+)/i.exec(req.headers.authorization ?? '')?.[1]
    if (token !== undefined) secrets.push(token)
    app(req, res)
  })
  const resource = `${origin}/mcp`
  const authorization = await startAuthorizationServer({ resources: [resource], scopes: ['mcp:read'] })
  const { issuer, jwksUri } = authorization
  const verifyToken = jwtVerifier({ issuer, jwksUri, audience: resource })
  const adapter = createMcpAdapter({
    router: KitMcpRouter.create(),
    oauth: { issuer, resource, scopes: ['mcp:read'], verifyToken },
  })
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.use(protectedResourceRouter(adapter))
  const visits: Promise<unknown>[] = []
  try {
    const report = await look(new URL(resource), {
      login: { redirectPort: 0, ...client },
      print: (text) => visits.push(visit(text)),
    })
    await Promise.allSettled(visits)
    return { report, secrets }
  } finally {
    await authorization.close()
  }
}

/** Opens the printed URL as a user does. */
async function visit(text: string): Promise<void> {
  const url = new URL(/https?:\/\/\S+/.exec(text)?.[0] ?? '')
  const redirectUri = url.searchParams.get('redirect_uri') ?? ''
  const callback = await new Browser(fetch).follow(url, redirectUri)
  await (await fetch(callback)).text()
}

/** Sends two wrong redirects and then one with the given parameters. Resolves with the statuses. */
async function answerSignIn(text: string, parameters: Readonly<Record<string, string>>): Promise<number[]> {
  const asked = new URL(/https?:\/\/\S+/.exec(text)?.[0] ?? '').searchParams
  const redirectUri = asked.get('redirect_uri') ?? ''
  const answer = new URLSearchParams({ ...parameters, state: asked.get('state') ?? '' })
  const addresses = [
    new URL('/', redirectUri).href,
    `${redirectUri}?code=forged&state=guessed`,
    `${redirectUri}?${answer}`,
  ]
  const statuses: number[] = []
  for (const address of addresses) statuses.push((await fetch(address)).status)
  return statuses
}
