// Any authorization server with opaque tokens that require introspection (RFC 7662), or whose tokens must stop working
// soon after they are revoked.
//
// Setup in the authorization server:
// - this server as a resource whose identifier is exactly RESOURCE, so that `aud` of the response contains it
// - a client with a secret for this server, which may use the introspection endpoint
// - the scope mcp:read
//
// If the authorization server never sends `aud`, set `audience: false`. The server then accepts every token of the
// authorization server, so require a scope that no other resource uses.
import express from 'express'
import {
  cachedVerifier,
  createMcpAdapter,
  introspectionVerifier,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { ISSUER, INTROSPECTION_ENDPOINT, CLIENT_ID, CLIENT_SECRET, RESOURCE } = settings({
  ISSUER: 'the authorization server, such as https://auth.example.com',
  INTROSPECTION_ENDPOINT: 'its introspection_endpoint, as in its metadata',
  CLIENT_ID: 'the client ID of this server at the authorization server',
  CLIENT_SECRET: 'the secret of that client',
  RESOURCE: 'the URL of this server as clients see it, such as https://mcp.example.com/mcp',
})

const verifyToken = cachedVerifier(
  introspectionVerifier({
    endpoint: INTROSPECTION_ENDPOINT,
    clientId: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    audience: RESOURCE,
  }),
  // A revoked token can keep working for this time. In return, most requests need no introspection.
  { ttlSeconds: 30 },
)

const router = KitMcpRouter.create().tool(
  'whoami',
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user?.id, client: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: { issuer: ISSUER, resource: RESOURCE, scopes: ['mcp:read'], verifyToken },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
