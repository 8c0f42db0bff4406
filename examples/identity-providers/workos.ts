// WorkOS AuthKit.
//
// Setup under Connect → Configuration:
// - MCP Auth, with Client ID Metadata Documents, or dynamic registration for clients that do not support them
// - exactly RESOURCE as a resource indicator, which AuthKit sets as `aud`
//
// Tokens: JWTs whose `sub` is the user (user_…) and whose `org_id` is the organization, if any. Access tokens do not
// contain the email address unless a JWT template adds it. AuthKit supports only the scopes of OpenID Connect, so this
// server requires none. Use `permissions` or your own data for authorization.
import express from 'express'
import {
  createMcpAdapter,
  jwtVerifier,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { AUTHKIT_DOMAIN, RESOURCE } = settings({
  AUTHKIT_DOMAIN: 'your AuthKit domain, such as acme.authkit.app',
  RESOURCE: 'the URL of this server as clients see it, which is a resource indicator at AuthKit',
})

const issuer = `https://${AUTHKIT_DOMAIN}`

const router = KitMcpRouter.create().tool(
  'whoami',
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user, client: auth?.clientId }),
)

const adapter = createMcpAdapter({
  router,
  oauth: {
    issuer,
    resource: RESOURCE,
    verifyToken: jwtVerifier({
      issuer,
      jwksUri: `${issuer}/oauth2/jwks`,
      audience: RESOURCE,
      requiredClaims: ['sub'],
      mapUser: ({ sub, org_id, permissions }) => ({ id: String(sub), organization: org_id, permissions }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
