import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import {
  Client,
  ClientCredentialsProvider,
  DpopSession,
  isDpopNonceChallenge,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { withoutNotices } from '../../../src/authorization/server/without-notices.ts'
import { protectedResourceRouter } from '../../../src/express/protected-resource-router.ts'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpHandler } from '../../../src/index.ts'
import type { DpopOptions } from '../../../src/oauth/dpop/options.ts'
import { listen, stopListening } from '../../support/listen.ts'

const SERVICE = { client_id: 'service', client_secret: 'not a secret, as it never leaves this machine' }

/** An authorization server that binds the tokens of a client to its key, on `http://127.0.0.1`. */
async function startDpopIssuer(resource: () => string) {
  const listening = await listen((req, res) => serve(req, res))
  const { Provider } = await withoutNotices(() => import('oidc-provider'))
  const provider = await withoutNotices(
    () =>
      new Provider(listening.origin, {
        clients: [
          {
            ...SERVICE,
            grant_types: ['client_credentials'],
            response_types: [],
            redirect_uris: [],
            dpop_bound_access_tokens: true,
          },
        ],
        scopes: ['mcp:read'],
        ttl: { ClientCredentials: 600 },
        features: {
          devInteractions: { enabled: false },
          dPoP: { enabled: true },
          clientCredentials: { enabled: true },
          resourceIndicators: {
            enabled: true,
            getResourceServerInfo: () => ({
              scope: 'mcp:read',
              audience: resource(),
              accessTokenFormat: 'jwt',
              accessTokenTTL: 600,
            }),
          },
        },
      }),
  )
  const serve: RequestListener = provider.callback()
  return listening
}

/** The OAuth provider of a client that has a key. */
class BoundProvider extends ClientCredentialsProvider {
  readonly session: DpopSession

  constructor(session: DpopSession, issuer: string) {
    super({
      clientId: SERVICE.client_id,
      clientSecret: SERVICE.client_secret,
      scope: 'mcp:read',
      expectedIssuer: issuer,
    })
    this.session = session
  }

  dpop(): DpopSession {
    return this.session
  }
}

describe('DPoP, with the official client and oidc-provider', () => {
  const settings: readonly (readonly [what: string, dpop: DpopOptions, nonces: number])[] = [
    ['required', { mode: 'required' }, 0],
    ['allowed', { mode: 'allowed' }, 0],
    ['required, with nonces of the server', { mode: 'required', nonce: true }, 1],
  ]
  for (const [what, dpop, nonces] of settings) {
    for (const mode of ['legacy', 'auto'] as const) {
      it(`the official client, ${what}: gets a bound token and calls a tool (${mode})`, async () => {
        let url = ''
        const issuer = await startDpopIssuer(() => url)
        const app = express()
        const http = createServer(app).listen(0, '127.0.0.1')
        await once(http, 'listening')
        url = `http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`
        const router = KitMcpRouter.create().tool('who', { description: 'Who is calling' }, (_, { auth }) =>
          String(auth?.clientId),
        )
        const adapter = createMcpAdapter({
          router,
          oauth: {
            issuer: issuer.origin,
            resource: url,
            scopes: ['mcp:read'],
            verifyToken: jwtVerifier({ issuer: issuer.origin, audience: url, strict: true }),
            dpop,
          },
        })
        app.use(protectedResourceRouter(adapter) as RequestHandler)
        app.use('/mcp', mcpHandler(adapter) as RequestHandler)
        const seen: Response[] = []
        const sent: string[] = []
        const transport = new StreamableHTTPClientTransport(new URL(url), {
          authProvider: new BoundProvider(await DpopSession.create(), issuer.origin),
          fetch: async (input, init) => {
            const response = await fetch(input, init)
            if (String(input) === url) {
              seen.push(response)
              sent.push(String(new Headers(init?.headers).get('authorization')))
            }
            return response
          },
        })
        const client = new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
        try {
          await client.connect(transport)
          const result = await client.callTool({ name: 'who', arguments: {} })
          expect(result.content).to.deep.equal([{ type: 'text', text: SERVICE.client_id }])
        } finally {
          await client.close()
          await stopListening(http)
        }
        // The first request has no token. Later ones are refused only for a nonce.
        expect(sent[0]).to.equal('null')
        expect(sent.slice(1).every((one) => one.startsWith('DPoP '))).to.equal(true)
        expect(seen.filter(isDpopNonceChallenge)).to.have.length(nonces)
        expect(seen.filter(({ status }) => status === 401)).to.have.length(1 + nonces)
      })
    }
  }
})
