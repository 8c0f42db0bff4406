import { randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { oauthProvider } from '@better-auth/oauth-provider'
import { type BetterAuthPlugin, betterAuth } from 'better-auth'
import { memoryAdapter } from 'better-auth/adapters/memory'
import { toNodeHandler } from 'better-auth/node'
import { jwt } from 'better-auth/plugins'
import { listen, stop } from '../../../examples/listen.ts'

const TABLES = [
  'user',
  'session',
  'account',
  'verification',
  'jwks',
  'oauthClient',
  'oauthResource',
  'oauthClientResource',
  'oauthAccessToken',
  'oauthRefreshToken',
  'oauthConsent',
  'oauthClientAssertion',
]

/** Better Auth as an authorization server on loopback and in memory, with one client. */
export interface BetterAuthServer {
  readonly origin: string
  readonly clientId: string
  /** Issues a token to the client: a JWT for a resource, and an opaque token without one. */
  issueToken(scope: string, resource?: string): Promise<string>
  close(): Promise<void>
}

/** The call that creates a client. The types of the plugin do not compile with `exactOptionalPropertyTypes`. */
interface ClientApi {
  adminCreateOAuthClient(call: {
    readonly headers: Headers
    readonly body: Readonly<Record<string, unknown>>
  }): Promise<{ readonly client_id: string; readonly client_secret?: string }>
}

export async function startBetterAuth(resource: string): Promise<BetterAuthServer> {
  const server = createServer()
  const origin = `http://127.0.0.1:${await listen(server, 0)}`
  const scopes = ['mcp:read', 'mcp:write']
  const auth = betterAuth({
    baseURL: origin,
    secret: randomBytes(32).toString('base64url'),
    database: memoryAdapter(Object.fromEntries(TABLES.map((table) => [table, []]))),
    telemetry: { enabled: false },
    emailAndPassword: { enabled: true },
    plugins: [
      jwt(),
      oauthProvider({
        loginPage: '/sign-in',
        consentPage: '/consent',
        scopes: ['openid', ...scopes],
        resources: [resource],
        clientRegistrationDefaultResources: [resource],
        clientPrivileges: () => true,
        silenceWarnings: { oauthAuthServerConfig: true, openidConfig: true },
      }) as unknown as BetterAuthPlugin,
    ],
  })
  server.on('request', toNodeHandler(auth))
  const { headers } = await auth.api.signUpEmail({
    body: { name: 'Ada', email: 'ada@example.com', password: 'correct horse battery' },
    returnHeaders: true,
  })
  const cookie = headers
    .getSetCookie()
    .map((line) => line.split(';')[0])
    .join('; ')
  const client = await (auth.api as unknown as ClientApi).adminCreateOAuthClient({
    headers: new Headers({ cookie }),
    body: {
      grant_types: ['client_credentials'],
      token_endpoint_auth_method: 'client_secret_post',
      client_credentials_scopes: scopes,
    },
  })
  return {
    origin,
    clientId: client.client_id,
    async issueToken(scope, requested) {
      const response = await fetch(`${origin}/api/auth/oauth2/token`, {
        method: 'POST',
        body: new URLSearchParams({
          grant_type: 'client_credentials',
          client_id: client.client_id,
          client_secret: client.client_secret ?? '',
          scope,
          ...(requested !== undefined && { resource: requested }),
        }),
      })
      const { access_token: token, error } = (await response.json()) as Record<string, string>
      if (token === undefined) throw new Error(`Better Auth issued no token: ${error}`)
      return token
    },
    close: () => stop(server),
  }
}
