// Supabase Auth.
//
// Setup in the Supabase dashboard:
// - Authentication → OAuth Server: enable it, and dynamic client registration unless you register every client manually.
//   Your application has to serve the consent page
// - Settings → JWT Keys: an asymmetric signing key. Tokens that are signed with the legacy JWT secret have no public key
//
// Tokens: `aud` is always "authenticated", because Supabase ignores the `resource` of the request. So this server also
// accepts tokens that a client of the same project requested for another server: use a project for one resource, or check
// `client_id`. Only tokens of OAuth clients have `client_id`; session tokens of your web application do not, and
// `requiredClaims` rejects them. Supabase supports only the scopes of OpenID Connect and does not put them into the token,
// so this server requires none.
import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { SUPABASE_URL, RESOURCE } = settings({
  SUPABASE_URL: 'the URL of the project, such as https://abcdefgh.supabase.co',
  RESOURCE: 'the URL of this server as clients see it, such as https://mcp.example.com/mcp',
})

const issuer = `${SUPABASE_URL.replace(/\/$/, '')}/auth/v1`

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
    verifyToken: jwtVerifier({
      issuer,
      jwksUri: `${issuer}/.well-known/jwks.json`,
      audience: 'authenticated',
      allowMismatch: true, // Supabase does not put RESOURCE into aud
      requiredClaims: ['sub', 'client_id'],
      mapUser: ({ sub, email }) => ({ id: String(sub), email }),
    }),
  },
})

const app = express()
app.use(mcpServer(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
