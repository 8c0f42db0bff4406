// Keycloak.
//
// Setup in the realm:
// - Client scopes: a scope mcp:read, included in the token's scope, with a mapper of the type Audience whose
//   "Included Custom Audience" is exactly RESOURCE, added to access tokens
// - Clients: that scope as a default or optional scope of each client, also of dynamically registered ones
//   (Client registration → policies), and PKCE with S256
//
// Tokens: Keycloak takes the audience from mappers. Its support of the `resource` parameter is experimental. Without the
// mapper, `aud` is missing or "account", and this server rejects the token. `typ` is JWT, so do not set `strict`. The
// client is in `azp`. Roles are in `realm_access.roles` and `resource_access.<client>.roles`.
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
  KEYCLOAK_URL: 'the URL of Keycloak as browsers see it, such as https://id.example.com',
  KEYCLOAK_REALM: 'the realm',
  RESOURCE: 'the URL of this server as clients see it, which the Audience mapper adds',
})

const issuer = `${KEYCLOAK_URL.replace(/\/$/, '')}/realms/${KEYCLOAK_REALM}`

/** The claim with the realm roles, which the client scope `roles` adds to the token. */
interface RealmAccess {
  readonly roles?: readonly string[]
}

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
      requiredClaims: ['sub'],
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
