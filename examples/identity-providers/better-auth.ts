// Better Auth, with the plugins `jwt` and `oauthProvider` (@better-auth/oauth-provider).
//
// Setup in the options of `betterAuth`:
// - plugins: jwt(), because only its tokens are JWTs, and oauthProvider({ …, scopes: ['openid', 'mcp:read'],
//   resources: [RESOURCE], clientRegistrationDefaultResources: [RESOURCE] })
// - allowDynamicClientRegistration and allowUnauthenticatedClientRegistration of oauthProvider, or client ID metadata
//   documents with @better-auth/cimd, unless you register every client manually
// - the metadata of the authorization server at /.well-known/oauth-authorization-server/api/auth of the same host
//
// Tokens: `iss` is the base URL with the base path. `aud` is the requested `resource`, and a list of two with the scope
// openid. `typ` is at+jwt. `client_id` and `azp` are the client. The default algorithm is EdDSA. A client that sends no
// `resource` gets an opaque token, which this server rejects.
import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { BETTER_AUTH_URL, RESOURCE } = settings({
  BETTER_AUTH_URL: 'the base URL of Better Auth, such as https://auth.example.com',
  RESOURCE: 'the URL of this server as clients see it, which is one of the resources of oauthProvider',
})

const issuer = `${BETTER_AUTH_URL.replace(/\/$/, '')}/api/auth`

const router = KitMcpRouter.create().tool(
  'whoami',
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user, client: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: {
    issuer,
    resource: RESOURCE,
    scopes: ['mcp:read'],
    verifyToken: jwtVerifier({
      issuer,
      jwksUri: `${issuer}/jwks`,
      audience: RESOURCE,
      strict: true,
      requiredClaims: ['sub'],
      mapUser: ({ sub }) => ({ id: String(sub) }),
    }),
  },
})

const app = express()
app.use(mcpServer(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
