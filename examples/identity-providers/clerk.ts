// Clerk.
//
// Setup in the Clerk Dashboard:
// - Agents → MCP servers: this server, with exactly RESOURCE as MCP URL. Clerk sets it as `aud`
// - OAuth applications → Settings: "Generate access tokens as JWTs", which is the default for new applications only,
//   and dynamic client registration, unless you register every client manually
//
// Tokens: `iss` is the Frontend API URL, without a slash at the end. `typ` is at+jwt, `client_id` is the client, and the
// scopes are in `scope` or `scp`. Session tokens of your web application have the same issuer and the same keys. Their `azp`
// is the origin of a web page, not a client. `strict` and the audience reject them. Without the JWT setting, tokens are
// opaque (oat_…) and every request gets a 401.
import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { CLERK_FRONTEND_API, RESOURCE } = settings({
  CLERK_FRONTEND_API: 'the Frontend API URL, such as https://verb-noun-42.clerk.accounts.dev',
  RESOURCE: 'the URL of this server as clients see it, which is the MCP URL at Clerk',
})

const issuer = CLERK_FRONTEND_API.replace(/\/$/, '')

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
    scopes: ['profile'],
    verifyToken: jwtVerifier({
      issuer,
      jwksUri: `${issuer}/.well-known/jwks.json`,
      audience: RESOURCE,
      // Rejects session tokens and ID tokens, whose `typ` is JWT.
      strict: true,
      requiredClaims: ['sub'],
      mapUser: ({ sub }) => ({ id: String(sub) }),
    }),
  },
})

const app = express()
app.use(mcpServer(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
