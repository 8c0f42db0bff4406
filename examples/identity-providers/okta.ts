// Okta, with a custom authorization server (API Access Management).
//
// Setup in the Admin Console, under Security → API → Authorization Servers:
// - an authorization server whose Audience is exactly RESOURCE, with the scope mcp:read
// - an access policy with a rule that grants this scope to your clients
// Okta registers clients only with an API token, so create an application for each client
//
// Tokens: `iss` is the issuer URI of that authorization server, such as https://acme.okta.com/oauth2/aus1a2b3. `aud` is its
// Audience. `scp` is an array of scopes, and `cid` is the client. `sub` is the login name, which can change; `uid` is the
// user, and missing in tokens of a service. Tokens of the org authorization server, whose `iss` is https://acme.okta.com,
// are only for Okta itself, and this server rejects them.
import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { OKTA_ISSUER, RESOURCE } = settings({
  OKTA_ISSUER: 'the issuer URI of the authorization server, such as https://acme.okta.com/oauth2/default',
  RESOURCE: 'the URL of this server as clients see it, which is the Audience of the authorization server',
})

const issuer = OKTA_ISSUER

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
      mapUser: ({ sub, uid }) => ({ id: String(uid ?? sub), login: sub }),
    }),
  },
})

const app = express()
app.use(mcpServer(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
