// Microsoft Entra ID.
//
// To set up there:
// - App registrations: one for this server. Its manifest says requestedAccessTokenVersion 2, as tokens of version 1
//   have another `iss` (https://sts.windows.net/…) and another `aud`
// - Expose an API: as Application ID URI the very URL of RESOURCE (its domain has to be verified in the tenant),
//   and the scope mcp.read. Entra compares the `resource` that MCP clients send with the front of the scopes they
//   ask for, and answers AADSTS9010010 when they differ
// - App registrations: one for each client. Entra registers none by itself
//
// Its tokens, in version 2: `aud` is the Application (client) ID of this server, not its URL. `scp` has the scopes
// by their short names, while clients must ask for them by their long ones: <RESOURCE>/mcp.read. A service that
// signs in as itself has `roles` instead of `scp`. Who it is, is `oid` together with `tid`: `sub` is another one in
// every application.
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
  /** One per user and tenant, the same in every application. */
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

/** Scopes by the names that clients ask for, so that the challenge of a 403 can be sent to Entra as it is. */
const verifyToken: VerifyToken<unknown, EntraUser> = async (input) => {
  const token = await verifyJwt(input)
  return token && { ...token, scopes: [token.scopes ?? []].flat().map((scope) => `${RESOURCE}/${scope}`) }
}

const router = KitMcpRouter.create().tool(
  'whoami',
  { description: 'Says who is calling' },
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
