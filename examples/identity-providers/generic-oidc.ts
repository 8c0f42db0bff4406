// Any authorization server that issues JWT access tokens, publishes its metadata (RFC 8414 or OpenID Connect
// Discovery) and knows resource indicators (RFC 8707).
//
// To set up there:
// - this server as a resource (an "API") with the very URL of RESOURCE: clients send it as `resource`, and the
//   server has to put it into the token's `aud`
// - the scope mcp:read, which ends up in the token's `scope`
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

const { ISSUER, RESOURCE } = settings({
  ISSUER: 'the authorization server, exactly as in `iss`, such as https://auth.example.com',
  RESOURCE: 'the URL of this server as clients see it, such as https://mcp.example.com/mcp',
})

const router = KitMcpRouter.create().tool(
  'whoami',
  { description: 'Says who is calling' },
  (_args, { auth }) => ({ user: auth?.user, client: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: {
    issuer: ISSUER,
    resource: RESOURCE,
    scopes: ['mcp:read'],
    verifyToken: jwtVerifier({
      // The keys are found through the metadata, and fetched again when they are rotated.
      issuer: ISSUER,
      audience: RESOURCE,
      // Tokens of RFC 9068 say `typ: at+jwt`, so an ID token is not taken for one. Leave it out where yours do not.
      strict: true,
      mapUser: ({ sub, email }) => ({ id: String(sub), email }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
