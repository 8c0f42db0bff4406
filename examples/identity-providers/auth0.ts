// Auth0.
//
// To set up there:
// - Applications → APIs: an API whose Identifier is the very URL of RESOURCE, with the permission mcp:read, RBAC
//   enabled, and RFC 9068 as its JWT profile
// - Settings → Advanced: "Resource Parameter Compatibility Profile", without which Auth0 looks at its own
//   `audience` parameter only. A client that names neither gets an opaque token, which is refused here
// - Settings → Advanced: dynamic client registration, unless every client is registered by hand
//
// Its tokens: `iss` ends with a slash. `aud` is a list of two where the client asked for `openid` as well. `scope`
// has what was asked for and, with RBAC, what the user may do; `permissions` is not needed beside it. The e-mail is
// not in access tokens: an Action can add it under a name of your own, such as https://mcp.example.com/email.
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

const { AUTH0_DOMAIN, RESOURCE } = settings({
  AUTH0_DOMAIN: 'your tenant, such as acme.eu.auth0.com, or your own domain for it',
  RESOURCE: 'the URL of this server as clients see it, which is the Identifier of the API',
})

const issuer = `https://${AUTH0_DOMAIN}/`

const router = KitMcpRouter.create().tool(
  'whoami',
  { description: 'Says who is calling' },
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
      audience: RESOURCE,
      // `typ: at+jwt` comes with the RFC 9068 profile; Auth0's own profile says JWT.
      strict: true,
      // auth0|… for a user, …@clients for a service.
      mapUser: ({ sub }) => ({ id: String(sub) }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
