// Replaces the network of a server by an OpenID provider with the addresses of Google, Microsoft, or Amazon. The variable
// STAND_IN describes it. Requests to other hosts than it and this machine fail.
import { createHash, generateKeyPairSync } from 'node:crypto'
import { SignJWT } from 'jose'
import type { StandIn } from './stand-in.ts'

const { issuer, authorize, token, jwks, userInfo, client, redirectUri }: StandIn = JSON.parse(
  String(process.env.STAND_IN),
)
const { publicKey, privateKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
/** The claims of the user who signed in last. */
let claims: Readonly<Record<string, unknown>> = {}
const realFetch = globalThis.fetch

globalThis.fetch = async (input, init) => {
  const url = input instanceof Request ? input.url : String(input)
  if (/^http:\/\/127\.0\.0\.1:/.test(url)) return await realFetch(input, init)
  if (url === `${issuer}/.well-known/openid-configuration`)
    return Response.json({
      issuer,
      authorization_endpoint: authorize,
      token_endpoint: token,
      jwks_uri: jwks,
      ...(userInfo !== undefined && { userinfo_endpoint: userInfo }),
      response_types_supported: ['code'],
      subject_types_supported: ['public'],
      id_token_signing_alg_values_supported: ['RS256'],
    })
  if (url === jwks) {
    const key = { ...publicKey.export({ format: 'jwk' }), kid: 'one', use: 'sig', alg: 'RS256' }
    return Response.json({ keys: [key] })
  }
  if (url === token) return await tokenResponse(new URLSearchParams(String(init?.body)))
  if (url === userInfo) return Response.json({ ...claims, email_verified: String(claims.email_verified) })
  throw new TypeError(`fetch failed: ${url}`)
}

/** The code of the test contains the parameters of the authorization request, and the claims of the user. */
async function tokenResponse(form: URLSearchParams): Promise<Response> {
  const code = JSON.parse(Buffer.from(String(form.get('code')), 'base64url').toString()) as {
    readonly redirect_uri: string
    readonly code_challenge: string
    readonly nonce: string
    readonly claims: Readonly<Record<string, unknown>>
  }
  const hash = createHash('sha256')
    .update(String(form.get('code_verifier')))
    .digest('base64url')
  const isRight =
    form.get('grant_type') === 'authorization_code' &&
    form.get('client_id') === client.id &&
    form.get('client_secret') === client.secret &&
    form.get('redirect_uri') === redirectUri &&
    code.redirect_uri === redirectUri &&
    code.code_challenge === hash
  if (!isRight) return Response.json({ error: 'invalid_grant' }, { status: 400 })
  claims = code.claims
  const idToken = await new SignJWT({ ...claims, nonce: code.nonce })
    .setProtectedHeader({ alg: 'RS256', kid: 'one', typ: 'JWT' })
    .setIssuer(issuer)
    .setAudience(client.id)
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(privateKey)
  return Response.json({
    access_token: 'opaque-token-of-the-provider',
    token_type: 'Bearer',
    expires_in: 3600,
    id_token: idToken,
  })
}
