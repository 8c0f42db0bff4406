import { expect } from 'chai'
import express, { type Express } from 'express'
import { z } from 'zod'
import type { ExaminationOptions } from '../../cli/doctor/examination.ts'
import { mcpAuth } from '../../src/express/mcp-auth.ts'
import { mcpCors } from '../../src/express/mcp-cors.ts'
import { mcpHandler } from '../../src/express/mcp-handler.ts'
import { mcpServer } from '../../src/express/mcp-server.ts'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { createMcpAdapter } from '../../src/mcp/adapter.ts'
import type { McpAdapterOptions } from '../../src/mcp/options.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import type { OAuthOptions } from '../../src/oauth/options.ts'
import { jwtVerifier } from '../../src/oauth/verifiers/jwt.ts'
import { createTestIssuer } from '../../src/testing/test-issuer.ts'
import { type Fault, findingOf, look, problemsOf, startTarget } from '../support/cli/doctor-target.ts'
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
    name: 'mcpCors, mcpAuth, and mcpHandler with allowedOrigins',
    mount(app, oauth) {
      const adapter = createMcpAdapter({ router, oauth, ...CHECKS })
      app.use('/mcp', mcpCors(CHECKS), mcpAuth(adapter), mcpHandler(adapter))
      app.use(protectedResourceRouter(adapter))
    },
    skipped: OTHER_ORIGINS,
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
]

describe('doctor has no failure, warning, or hint for', () => {
  let nginx: NginxProxy | undefined
  afterEach(async () => {
    await nginx?.stop()
    nginx = undefined
  })

  async function start({ mount, options, oauth, issuer: change, nginx: directives, served }: CorrectServer) {
    const { issuer } = await startTarget({ ...(change !== undefined && { issuer: change }) })
    const app = express()
    app.set('env', 'test')
    const { origin } = await listen(app)
    if (directives !== undefined) nginx = await startNginxProxy(origin, directives)
    const url = new URL(`${nginx?.origin ?? origin}/mcp`)
    const tokens = createTestIssuer({ issuer, audience: url.href })
    const gate: OAuthOptions = {
      issuer,
      resource: url.href,
      scopes: ['mcp:read'],
      verifyToken: jwtVerifier(tokens.verifierOptions),
      ...oauth,
    }
    if (mount !== undefined) mount(app, gate)
    else app.use(mcpServer(createMcpAdapter({ router: served ?? router, ...options, oauth: gate })))
    return {
      url,
      token: await tokens.issueToken({ scopes: ['mcp:read', 'mcp:write'] }),
      underScopedToken: await tokens.issueToken({ scopes: ['mcp:read'] }),
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
        for (const [id, why] of Object.entries(skipped)) {
          expect(findingOf(report, id)?.status, id).to.equal('skip')
          expect(findingOf(report, id)?.seen, id).to.match(why)
        }
      })
    }
  }
})
