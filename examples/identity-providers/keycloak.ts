// Keycloak.
//
// To set up there, in the realm:
// - Client scopes: a scope mcp:read, included in the token's scope, with a mapper of the type Audience whose
//   "Included Custom Audience" is the very URL of RESOURCE, added to access tokens
// - Clients: that scope as a default or optional one of each client, also of those that register themselves
//   (Client registration → policies), and PKCE with S256
//
// Its tokens: Keycloak takes the audience from mappers, not from the `resource` parameter, which is experimental
// there. Without the mapper `aud` is missing or "account", and the token is refused here. `typ` is JWT, so `strict`
// stays off. The client is in `azp`, roles are in `realm_access.roles` and `resource_access.<client>.roles`.
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

const { KEYCLOAK_URL, KEYCLOAK_REALM, RESOURCE } = settings({
  KEYCLOAK_URL: 'where Keycloak is, as browsers see it, such as https://id.example.com',
  KEYCLOAK_REALM: 'the realm',
  RESOURCE: 'the URL of this server as clients see it, which the Audience mapper adds',
})

const issuer = `${KEYCLOAK_URL.replace(/\/$/, '')}/realms/${KEYCLOAK_REALM}`

/** What a realm's roles are in, where the client scope `roles` puts them into the token. */
interface RealmAccess {
  readonly roles?: readonly string[]
}

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
      mapUser: ({ sub, preferred_username, realm_access }) => ({
        id: String(sub),
        name: preferred_username,
        roles: (realm_access as RealmAccess | undefined)?.roles ?? [],
      }),
    }),
  },
})

const app = express()
app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
app.use(protectedResourceRouter(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
