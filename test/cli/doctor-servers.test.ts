import { expect } from 'chai'
import express, { type Express, type RequestHandler } from 'express'
import { z } from 'zod'
import type { ExaminationOptions } from '../../cli/doctor/examination.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { jwtVerifier, KitMcpRouter, mcpAuth, mcpCors, mcpHandler, mcpServer } from '../../src/index.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import type { McpAdapterOptions } from '../../src/mcp/options.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import {
  type DoctorTarget,
  type Fault,
  findingOf,
  look,
  problemsOf,
  startTarget,
} from '../support/cli/doctor-target.ts'
import { type ExaminedServer, itReports } from '../support/cli/recorded.ts'
import { listen } from '../support/listen.ts'
import { type NginxProxy, nginxMissing, startNginxProxy } from '../support/nginx.ts'
import { skipIf } from '../support/skip.ts'

const PAGE = 'https://app.example.com'
const CHECKS = { allowedOrigins: [PAGE], allowedHosts: ['127.0.0.1'] }

const tool = {
  title: 'A tool',
  description: 'A tool',
  annotations: { readOnlyHint: true },
  input: z.object({}),
} as const

const router = KitMcpRouter.create()
  .tool('greet', tool, () => 'Hello!')
  .tool('erase', { ...tool, scopes: ['mcp:write'] }, () => 'Gone.')

const partlyPublic = KitMcpRouter.create()
  .tool('greet', { ...tool, public: true }, () => 'Hello!')
  .tool('erase', { ...tool, scopes: ['mcp:write'] }, () => 'Gone.')

interface Node {
  readonly children: readonly Node[]
}

const node: z.ZodType<Node> = z.object({ children: z.array(z.lazy(() => node)) })

/** A tool whose schemas have references, patterns, and unions. */
const withSchemas = KitMcpRouter.create()
  .tool('greet', tool, () => 'Hello!')
  .tool(
    'erase',
    {
      ...tool,
      scopes: ['mcp:write'],
      input: z.object({
        path: z
          .string()
          .regex(/^[\w./-]+$/)
          .optional(),
        size: z.number().gt(1).optional(),
      }),
      output: z.object({ root: node, kind: z.union([z.literal('a'), z.null()]).optional() }),
    },
    () => ({ root: { children: [{ children: [] }] } }),
  )

const PARSE_ERROR = { jsonrpc: '2.0', id: null, error: { code: -32_700, message: 'Parse error' } }

/** Members of RFC 8414 and its extensions that doctor does not need. */
const FURTHER_MEMBERS = (document: Record<string, any>): void => {
  Object.assign(document, {
    pushed_authorization_request_endpoint: `${document.issuer}/par`,
    require_pushed_authorization_requests: false,
    introspection_endpoint: `${document.issuer}/introspect`,
    revocation_endpoint: `${document.issuer}/revoke`,
    authorization_response_iss_parameter_supported: true,
    dpop_signing_alg_values_supported: ['ES256'],
    client_id_metadata_document_supported: true,
    token_endpoint_auth_methods_supported: ['none', 'private_key_jwt'],
    grant_types_supported: ['authorization_code', 'refresh_token'],
    claims_parameter_supported: null,
    'x-vendor': { nested: [1, null] },
  })
}

interface CorrectServer {
  readonly name: string
  /** Mounts the server. Defaults to `mcpServer` with the options. */
  readonly mount?: (app: Express, oauth: OAuthOptions) => void
  /** Defaults to two tools that require a token. */
  readonly served?: typeof router
  readonly options?: McpAdapterOptions
  readonly oauth?: Partial<OAuthOptions>
  readonly issuer?: Fault['issuer']
  readonly examined?: Partial<ExaminationOptions>
  /** The directives of an nginx in front. */
  readonly nginx?: string
  /** Changes to the claims of the token. */
  readonly claims?: Readonly<Record<string, unknown>>
  /** The second user of `--other-token-env`. */
  readonly otherUser?: string
  /** Checks that are skipped, with the reason. */
  readonly skipped?: Readonly<Record<string, RegExp>>
}

/** The origin that doctor uses by default is not that of the page. */
const OTHER_ORIGINS = {
  'cors.preflight': /^403 for http:\/\/localhost:6274: the server allows other origins only\. .* --origin$/,
}

/** Servers without a mistake. Doctor must not blame any of them. */
const SERVERS: readonly CorrectServer[] = [
  { name: 'mcpServer' },
  {
    name: 'mcpServer with allowedOrigins',
    options: CHECKS,
    skipped: OTHER_ORIGINS,
  },
  {
    name: 'mcpServer with allowedOrigins, for its page',
    options: CHECKS,
    examined: { origin: PAGE },
  },
  {
    name: 'mcpCors, mcpAuth, and mcpHandler with allowedOrigins, for its page',
    mount(app, oauth) {
      const adapter = createMcpAdapter({ router, oauth, ...CHECKS })
      app.use('/mcp', mcpCors(CHECKS), mcpAuth(adapter), mcpHandler(adapter))
      app.use(protectedResourceRouter(adapter))
    },
    examined: { origin: PAGE },
  },
  { name: 'mcpServer with anonymous', served: partlyPublic, oauth: { anonymous: true } },
  {
    name: 'mcpServer with anonymous and allowedOrigins',
    options: CHECKS,
    served: partlyPublic,
    oauth: { anonymous: true },
    skipped: OTHER_ORIGINS,
  },
  { name: 'mcpServer with sessions', options: { sessions: true } },
  {
    name: 'mcpServer with a copy of the metadata of the authorization server',
    mount(app, oauth) {
      app.use(mcpServer(createMcpAdapter({ router, oauth }), { authorizationServerMetadata: true }))
    },
  },
  { name: 'an authorization server with PAR and other members', issuer: FURTHER_MEMBERS },
  {
    name: 'a server card, a catalog, and other members of the resource metadata',
    mount(app, oauth) {
      const card = {
        $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
        name: 'com.example/mcp-gatekit',
        version: '0.0.0',
        description: 'Notes',
      }
      app.get('/mcp/server-card', (_req, res) => {
        res.set('Access-Control-Allow-Origin', '*').type('application/mcp-server-card+json').send(card)
      })
      const entry = {
        identifier: 'urn:air:example.com:mcp:notes',
        type: 'application/mcp-server-card+json',
        url: `${oauth.resource}/server-card`,
      }
      app.get('/.well-known/ai-catalog.json', (_req, res) => {
        res.type('application/ai-catalog+json').send({ specVersion: '1.0', entries: [entry] })
      })
      app.use(mcpServer(createMcpAdapter({ router, oauth })))
    },
    oauth: { resourceName: 'Notes', resourceDocumentation: 'https://example.com/docs' },
  },
  { name: 'nginx in front of mcpServer', nginx: '' },
  {
    name: 'nginx in front of mcpServer without a fixed resource',
    nginx: 'proxy_set_header X-Forwarded-Host $http_host; proxy_set_header X-Forwarded-For $remote_addr;',
    oauth: { resource: undefined },
  },
  {
    name: 'nginx in front of mcpServer with anonymous and allowedOrigins',
    nginx: 'proxy_buffering off;',
    options: CHECKS,
    served: partlyPublic,
    oauth: { anonymous: true },
    skipped: OTHER_ORIGINS,
  },
  { name: 'mcpServer with sessions, for two users', options: { sessions: true }, otherUser: 'eve' },
  {
    name: 'mcpServer with sessions, for two tokens of one user',
    options: { sessions: true },
    otherUser: 'test-user',
    skipped: { 'session.other-user': /^see protocol\.revisions$|^both tokens are of the same user/ },
  },
  {
    name: 'mcpServer without sessions, for two users',
    otherUser: 'eve',
    skipped: { 'session.other-user': /^see protocol\.revisions$|^the server opens no session/ },
  },
  { name: 'tools with references, patterns, and unions in their schemas', served: withSchemas },
  { name: 'a token with scp', claims: { scope: undefined, scp: ['mcp:read', 'mcp:write'] } },
  {
    name: 'a token that was issued 30 seconds in the future',
    claims: { iat: Math.floor(Date.now() / 1000) + 30 },
  },
  {
    name: 'express.json() behind mcpAuth',
    mount(app, oauth) {
      const adapter = createMcpAdapter({ router, oauth })
      const parser = express.json()
      app.use('/mcp', mcpCors(), mcpAuth(adapter), (req, res, next) =>
        // The parser of an application answers invalid bodies itself.
        parser(req, res, (error) => (error === undefined ? next() : res.status(400).json(PARSE_ERROR))),
      )
      app.use('/mcp', mcpHandler(adapter))
      app.use(protectedResourceRouter(adapter))
    },
  },
]

describe('doctor has no failure, warning, or hint for', () => {
  let nginx: NginxProxy | undefined
  afterEach(async () => {
    await nginx?.stop()
    nginx = undefined
  })

  async function start(server: CorrectServer) {
    const { mount, options, oauth, nginx: directives, served, claims, otherUser } = server
    const target = await startTarget({ ...(server.issuer !== undefined && { issuer: server.issuer }) })
    const app = express()
    app.set('env', 'test')
    const { origin } = await listen(app)
    if (directives !== undefined) nginx = await startNginxProxy(origin, directives)
    const url = new URL(`${nginx?.origin ?? origin}/mcp`)
    const gate: OAuthOptions = {
      issuer: target.issuer,
      resource: url.href,
      scopes: ['mcp:read'],
      verifyToken: jwtVerifier({ ...target.verifierOptions, audience: url.href }),
      ...oauth,
    }
    if (mount !== undefined) mount(app, gate)
    else app.use(mcpServer(createMcpAdapter({ router: served ?? router, ...options, oauth: gate })))
    const issue = (scope: string, further = {}) =>
      target.issueToken({ audience: url.href, claims: { scope, ...claims, ...further } })
    return {
      url,
      token: await issue('mcp:read mcp:write'),
      underScopedToken: await issue('mcp:read', claims?.scp === undefined ? {} : { scp: ['mcp:read'] }),
      ...(otherUser !== undefined && { otherToken: await issue('mcp:read', { sub: otherUser }) }),
    }
  }

  for (const server of SERVERS) {
    const { name, examined, skipped = {} } = server
    for (const isSignedIn of [false, true]) {
      it(`${name}, ${isSignedIn ? 'with' : 'without'} a token`, async function () {
        if (server.nginx !== undefined) skipIf(this, nginxMissing())
        const { url, ...tokens } = await start(server)
        const report = await look(url, { ...(isSignedIn && { ...tokens, call: 'erase' }), ...examined })
        expect(
          problemsOf(report),
          JSON.stringify(
            report.checks.filter(({ hint }) => hint),
            null,
            1,
          ),
        ).to.deep.equal([])
        if (isSignedIn)
          expect(findingOf(report, 'token.claims')?.seen).to.match(
            /^no difference found in aud, iss, exp, iat, sub, client_id, jti, typ, alg, the key$/,
          )
        for (const [id, why] of Object.entries(skipped)) {
          expect(findingOf(report, id)?.status, id).to.equal('skip')
          expect(findingOf(report, id)?.seen, id).to.match(why)
        }
      })
    }
  }
})

/** Returns a token with other claims, signed with the key of the authorization server. */
const withClaims =
  (change: (target: DoctorTarget) => Record<string, unknown>) =>
  (target: DoctorTarget): Promise<string> =>
    target.issueToken({ claims: { scope: 'mcp:read mcp:write', ...change(target) } })

/** Returns a token of the same issuer, signed with a key that is not in its key set. */
const withForeignKey = ({ issuer, url }: DoctorTarget): Promise<string> =>
  createTestIssuer({ issuer, audience: url.href }).issueToken({ scopes: ['mcp:read'] })

/** Answers each POST with the same error. */
const answering =
  (status: number, body: object | string, type = 'application/json'): NonNullable<Fault['instead']> =>
  ({ method }) =>
    method === 'POST'
      ? {
          status,
          headers: { 'content-type': type },
          body: typeof body === 'string' ? body : JSON.stringify(body),
        }
      : undefined

const rpcError = (code: number, message: string) => ({ jsonrpc: '2.0', id: null, error: { code, message } })

/** Adds an output to the first tool of each list. */
const withOutput = (property: object): NonNullable<Fault['alter']> => {
  const schema = JSON.stringify({ type: 'object', properties: { a: property } })
  return (answer) => {
    answer.body = answer.body.replace('"name":"greet",', (found) => `${found}"outputSchema":${schema},`)
  }
}

/** A middleware that reads the body and does not keep it. */
const consume: RequestHandler = (req, _res, next) => void req.on('end', () => next()).resume()

const FAULTY: Readonly<Record<string, ExaminedServer>> = {
  'a token whose key is not in the key set': { token: withForeignKey },
  'a token whose key has the ID of another key': {
    async token(target) {
      const [header, payload] = target.token.split('.')
      return `${header}.${payload}.${(await withForeignKey(target)).split('.')[2]}`
    },
  },
  'a token from a clock that is ahead': {
    token: withClaims(() => ({ iat: Math.floor(Date.now() / 1000) + 400 })),
  },
  'a token whose issuer has the slash of the metadata of the authorization server': {
    issuer: (document) => {
      document.issuer += '/'
    },
    token: withClaims(({ issuer }) => ({ iss: `${issuer}/` })),
  },
  'a token that a server rejects for a reason of its own': { oauth: { verifyToken: () => undefined } },
  'a tunnel to a server that does not allow its host': { options: { allowedHosts: ['mcp.example.com'] } },
  'a tunnel to a server that looks at its host first': {
    instead: answering(403, rpcError(-32_000, 'Invalid Host: mcp.example.com')),
  },
  'a server that fails with a JSON-RPC error': {
    instead: answering(500, rpcError(-32_603, 'Internal server error')),
  },
  'a body that middleware has read': { middleware: consume },
  'a body that middleware has read, in front of an open server': { middleware: consume, open: true },
  'a server that expects a session of initialize': {
    instead: answering(400, rpcError(-32_000, 'Bad Request: Mcp-Session-Id header is required')),
  },
  'a gateway that describes its refusal': {
    instead: answering(
      403,
      { type: 'about:blank', title: 'Forbidden', detail: 'No requests from this country' },
      'application/problem+json',
    ),
  },
  'metadata whose issuer has one slash more, for a client that compares it': {
    issuer: (document) => {
      document.issuer += '/'
    },
    asked: { as: 'codex' },
  },
  'an output with a reference that leads nowhere': { alter: withOutput({ $ref: '#/$defs/Nope' }) },
  'an input with an unknown type': {
    alter: (answer) => {
      answer.body = answer.body.replace('"properties":{}', '"properties":{"a":{"type":"text"}}')
    },
  },
  'a session that every user can use': {
    options: { sessions: true },
    // The server takes all users for one.
    oauth: {
      verifyToken: () => ({ valid: true, user: { id: 'service' }, scopes: ['mcp:read', 'mcp:write'] }),
    },
  },
  'express.json() in front of the gate': { middleware: express.json() },
}

describe('doctor, for servers and tokens with one fault,', () =>
  itReports('servers', FAULTY, undefined, async ({ issueToken }) => ({
    otherToken: await issueToken({ sub: 'eve', scopes: ['mcp:read'] }),
  })))
