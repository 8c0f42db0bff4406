// Microsoft Entra ID.
//
// Setup in the Entra admin center:
// - App registrations: one for this server, with requestedAccessTokenVersion 2 in its manifest, because tokens of
//   version 1 have another `iss` (https://sts.windows.net/…) and another `aud`
// - Expose an API: exactly RESOURCE as Application ID URI (its domain must be verified in the tenant),
//   and the scope mcp.read. Entra compares the `resource` of the request with the beginning of the requested
//   scopes, and returns AADSTS9010010 if they differ
// - App registrations: one for each client. Entra does not support dynamic registration
//
// Tokens of version 2: `aud` is the Application (client) ID of this server, not its URL. `scp` contains the short names
// of scopes, but clients must request the long names: <RESOURCE>/mcp.read. Tokens of a service without a user contain
// `roles` instead of `scp`. The user is `oid` together with `tid`, because `sub` differs for every application.
import express from 'express'
import {
  createMcpAdapter,
  jwtVerifier,
  KitMcpRouter,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
  type VerifyToken,
} from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { TENANT_ID, CLIENT_ID, RESOURCE } = settings({
  TENANT_ID: 'the Directory (tenant) ID',
  CLIENT_ID: 'the Application (client) ID of this server',
  RESOURCE: 'the URL of this server as clients see it, which is its Application ID URI',
})

const issuer = `https://login.microsoftonline.com/${TENANT_ID}/v2.0`

interface EntraUser {
  /** Unique for each user and tenant, and the same in every application. */
  readonly id: string
  readonly tenant: string
  readonly name: unknown
}

const verifyJwt = jwtVerifier<EntraUser>({
  issuer,
  audience: CLIENT_ID,
  requiredClaims: ['oid', 'tid'],
  mapUser: ({ oid, tid, name }) => ({ id: String(oid), tenant: String(tid), name }),
})

/** Scopes with their long names, so that clients can send the scopes of a challenge to Entra unchanged. */
const verifyToken: VerifyToken<unknown, EntraUser> = async (input) => {
  const token = await verifyJwt(input)
  return token && { ...token, scopes: [token.scopes ?? []].flat().map((scope) => `${RESOURCE}/${scope}`) }
}

const router = KitMcpRouter.create().tool(
  'whoami',
  { title: 'Who am I?', description: 'Returns the caller', annotations: { readOnlyHint: true } },
  (_args, { auth }) => ({ user: auth?.user, client: auth?.clientId, scopes: auth?.scopes }),
)

const adapter = createMcpAdapter({
  router,
  oauth: { issuer, resource: RESOURCE, scopes: [`${RESOURCE}/mcp.read`], verifyToken },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
