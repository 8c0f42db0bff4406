// Amazon Cognito.
//
// Setup in the user pool:
// - Domain → Resource servers: one whose identifier is exactly RESOURCE, with the custom scope mcp.read
// - App clients: one for each client, with managed login, the authorization code grant, and that scope. Cognito does not
//   support dynamic registration
//
// Tokens: `iss` is https://cognito-idp.<region>.amazonaws.com/<user pool ID>, not the domain of managed login. `token_use`
// is "access" in access tokens and "id" in ID tokens. Scopes have long names: <RESOURCE>/mcp.read. `client_id` is the app
// client. If the client sent `resource` (resource binding), `aud` is RESOURCE. Other access tokens have no `aud`. This
// server accepts them only from the listed app clients, and the scope shows that they are for this server.
import express from 'express'
import { createRemoteJWKSet, errors, type JWTPayload, jwtVerify } from 'jose'
import {
  createMcpAdapter,
  KitMcpRouter,
  mcpServer,
  VerifierUnavailableError,
  type VerifyToken,
} from 'mcp-gatekit'
import { settings } from '../settings.ts'

const { COGNITO_ISSUER, COGNITO_CLIENT_IDS, RESOURCE } = settings({
  COGNITO_ISSUER: 'the user pool, such as https://cognito-idp.eu-west-1.amazonaws.com/eu-west-1_a1b2c3',
  COGNITO_CLIENT_IDS: 'the IDs of the app clients whose tokens need no aud, separated by commas',
  RESOURCE: 'the URL of this server as clients see it, which is the identifier of the resource server',
})

const issuer = COGNITO_ISSUER
const clientIds = COGNITO_CLIENT_IDS.split(',')
const keys = createRemoteJWKSet(new URL(`${issuer}/.well-known/jwks.json`))

interface CognitoUser {
  readonly id: string
  readonly name: unknown
  readonly groups: unknown
}

/** Returns the claims of a token with a valid signature, issuer, and lifetime. */
async function claimsOf(token: string): Promise<JWTPayload | undefined> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      issuer,
      algorithms: ['RS256'],
      requiredClaims: ['exp', 'sub'],
    })
    return payload
  } catch (error) {
    const isAboutToken =
      error instanceof errors.JOSEError &&
      !(error instanceof errors.JWKSTimeout || error instanceof errors.JWKSInvalid) &&
      error.code !== 'ERR_JOSE_GENERIC'
    if (isAboutToken) return undefined
    throw new VerifierUnavailableError('The keys of the user pool cannot be fetched', { cause: error })
  }
}

// jwtVerifier requires `aud`, which most tokens of Cognito do not have.
const verifyToken: VerifyToken<unknown, CognitoUser> = async ({ bearerToken }) => {
  const claims = bearerToken === undefined ? undefined : await claimsOf(bearerToken)
  if (claims === undefined || claims.token_use !== 'access') return undefined
  const { sub, aud, client_id, scope, exp, username } = claims
  const isForThisServer =
    aud === undefined ? clientIds.includes(String(client_id)) : [aud].flat().includes(RESOURCE)
  if (!isForThisServer) return undefined
  return {
    valid: true,
    user: { id: String(sub), name: username, groups: claims['cognito:groups'] },
    clientId: String(client_id),
    scopes: String(scope ?? '').split(' '),
    ...(exp !== undefined && { expiresAt: exp }),
  }
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
    scopes: [`${RESOURCE}/mcp.read`],
    verifyToken,
  },
})

const app = express()
app.use(mcpServer(adapter))
app.listen(Number(process.env.PORT ?? 3000), () => console.log(`Serving ${RESOURCE}`))
