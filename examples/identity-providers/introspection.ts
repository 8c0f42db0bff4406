// Any authorization server whose tokens say nothing by themselves and have to be asked about (RFC 7662), or whose
// tokens must stop working the moment they are revoked.
//
// To set up there:
// - this server as a resource with the very URL of RESOURCE, so that the answer has it in `aud`
// - a client for this server itself, with a secret, which may use the introspection endpoint
// - the scope mcp:read
//
// Where `aud` is never sent, `audience: false` says so openly; any token of the authorization server is good here
// then, so give it a scope that nothing else uses.
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
  INTROSPECTION_ENDPOINT: 'its introspection_endpoint, as its metadata say',
  CLIENT_ID: 'what this server is registered as there',
  CLIENT_SECRET: 'the secret that goes with it',
  RESOURCE: 'the URL of this server as clients see it, such as https://mcp.example.com/mcp',
})

const verifyToken = cachedVerifier(
  introspectionVerifier({
    endpoint: INTROSPECTION_ENDPOINT,
    clientId: CLIENT_ID,
    clientSecret: CLIENT_SECRET,
    audience: RESOURCE,
  }),
  // A token that was revoked goes on working for at most so long; in return most requests ask nobody.
  { ttlSeconds: 30 },
)

const router = KitMcpRouter.create().tool(
  'whoami',
  { description: 'Says who is calling' },
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
