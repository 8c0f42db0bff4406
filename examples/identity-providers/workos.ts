// WorkOS AuthKit.
//
// To set up there, under Connect → Configuration:
// - MCP Auth, with Client ID Metadata Documents, or dynamic registration for clients that do not know those
// - as a resource indicator the very URL of RESOURCE, which AuthKit then puts into `aud`
//
// Its tokens: JWT whose `sub` is the user (user_…) and whose `org_id` is the organization, where there is one. The
// e-mail is not in access tokens, unless a JWT template adds it. AuthKit's scopes are those of OpenID Connect, so
// none are required here: what somebody may do is decided by `permissions`, or by your own data.
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
  { description: 'Says who is calling' },
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
      mapUser: ({ sub, org_id, permissions }) => ({ id: String(sub), organization: org_id, permissions }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
