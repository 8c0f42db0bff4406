// Any authorization server that issues JWT access tokens, publishes its metadata (RFC 8414 or OpenID Connect
// Discovery), and supports resource indicators (RFC 8707).
//
// Setup in the authorization server:
// - this server as a resource (an "API") whose identifier is exactly RESOURCE. Clients send it as `resource`, and
//   the authorization server must set it as `aud` of the token
// - the scope mcp:read, which must be in the `scope` of the token
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
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user, client: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: {
    issuer: ISSUER,
    resource: RESOURCE,
    scopes: ['mcp:read'],
    verifyToken: jwtVerifier({
      // The verifier finds the keys in the metadata and fetches them again after a rotation.
      issuer: ISSUER,
      audience: RESOURCE,
      // Requires `typ: at+jwt` (RFC 9068), which rejects ID tokens. Remove it if your tokens have another `typ`.
      strict: true,
      requiredClaims: ['sub'],
      mapUser: ({ sub, email }) => ({ id: String(sub), email }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
