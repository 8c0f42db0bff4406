// Auth0.
//
// Setup in the Auth0 dashboard:
// - Applications → APIs: an API whose Identifier is exactly RESOURCE, with the permission mcp:read, RBAC
//   enabled, and RFC 9068 as its JWT profile
// - Settings → Advanced: "Resource Parameter Compatibility Profile". Without it, Auth0 reads only its own
//   `audience` parameter. A client that sends neither gets an opaque token, which this server rejects
// - Settings → Advanced: dynamic client registration, unless you register every client manually
//
// Tokens: `iss` ends with a slash. `aud` is a list of two if the client also requested `openid`. `scope` contains the
// requested scopes that, with RBAC, the user has; `permissions` is not needed in addition. Access tokens do not contain
// the email address. An Action can add it as a custom claim, such as https://mcp.example.com/email.
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
  AUTH0_DOMAIN: 'your tenant, such as acme.eu.auth0.com, or its custom domain',
  RESOURCE: 'the URL of this server as clients see it, which is the Identifier of the API',
})

const issuer = `https://${AUTH0_DOMAIN}/`

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
      audience: RESOURCE,
      // The RFC 9068 profile sets `typ: at+jwt`. The profile of Auth0 sets `typ: JWT`.
      strict: true,
      // auth0|… for a user, …@clients for a service.
      requiredClaims: ['sub'],
      mapUser: ({ sub }) => ({ id: String(sub) }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
