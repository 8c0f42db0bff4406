import { generateKeyPairSync, type KeyObject, randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { CompactSign, type JWK, type JWTHeaderParameters, type JWTPayload, SignJWT } from 'jose'
import { listen, stop } from '../../../examples/listen.ts'
import { formOf } from '../upstream/exchange-server.ts'

/** The identity provider of a company, which issues identity assertions (ID-JAG) by token exchange. */
export interface IdentityProvider {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** The public key that signs assertions. */
  readonly jwk: JWK
  /** The number of times that its keys were fetched. */
  readonly keyFetches: number
  /** The token exchanges so far. */
  readonly exchanges: readonly URLSearchParams[]
  /** Returns an ID token of a user for the client. */
  idToken(subject: string): Promise<string>
  /** Returns an assertion with these claims. A claim that is `undefined` is left out. */
  assertion(claims: JWTPayload, header?: AssertionHeader): Promise<string>
  /** Returns an assertion with these bytes as its claims. */
  signed(payload: Uint8Array): Promise<string>
  close(): Promise<void>
}

/** Members of the header, and the key that signs, by default the key of the provider. */
export interface AssertionHeader extends Partial<JWTHeaderParameters> {
  readonly key?: KeyObject | Uint8Array | undefined
}

export interface IdentityProviderOptions {
  /** The client id at the authorization server of the MCP server, for the client of this provider. */
  readonly mappedClientId?: string
  /** Changes the claims of assertions that are issued by token exchange. */
  readonly claims?: JWTPayload
}

const TOKEN_EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ID_JAG = 'urn:ietf:params:oauth:token-type:id-jag'
const ID_TOKEN = 'urn:ietf:params:oauth:token-type:id_token'

/** Starts a provider that follows sections 4.3 and 4.4 of draft-ietf-oauth-identity-assertion-authz-grant. */
export async function startIdentityProvider({
  mappedClientId = 'desk',
  claims: changes = {},
}: IdentityProviderOptions = {}): Promise<IdentityProvider> {
  const http = createServer()
  const issuer = `http://127.0.0.1:${await listen(http, 0)}`
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const jwk = { ...publicKey.export({ format: 'jwk' }), kid: 'one', alg: 'ES256', use: 'sig' }
  const clientId = 'desk-at-the-company'
  const clientSecret = randomUUID()
  const idTokens = new Map<string, string>()
  const exchanges: URLSearchParams[] = []
  let keyFetches = 0
  const sign = async (
    claims: JWTPayload,
    { key = privateKey, ...header }: AssertionHeader,
  ): Promise<string> =>
    await new SignJWT(claims)
      .setProtectedHeader({ typ: 'oauth-id-jag+jwt', alg: 'ES256', kid: 'one', ...header })
      .sign(key)
  const assertion: IdentityProvider['assertion'] = async (claims, header = {}) => {
    const now = Math.floor(Date.now() / 1000)
    return await sign(
      { iss: issuer, sub: 'ada', jti: randomUUID(), iat: now, exp: now + 300, ...claims },
      header,
    )
  }
  http.on('request', async (req, res) => {
    const json = (status: number, body: unknown): void => {
      res.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    if (
      req.url === '/.well-known/openid-configuration' ||
      req.url === '/.well-known/oauth-authorization-server'
    )
      return json(200, {
        issuer,
        authorization_endpoint: `${issuer}/authorize`,
        token_endpoint: `${issuer}/token`,
        jwks_uri: `${issuer}/jwks`,
        response_types_supported: ['code'],
        grant_types_supported: ['authorization_code', TOKEN_EXCHANGE],
        identity_chaining_requested_token_types_supported: [ID_JAG],
      })
    if (req.url === '/jwks') {
      keyFetches++
      return json(200, { keys: [jwk] })
    }
    if (req.url !== '/token' || req.method !== 'POST') return json(404, {})
    const form = await formOf(req)
    exchanges.push(form)
    const subject = idTokens.get(String(form.get('subject_token')))
    if (form.get('client_id') !== clientId || form.get('client_secret') !== clientSecret)
      return json(401, { error: 'invalid_client' })
    if (
      form.get('grant_type') !== TOKEN_EXCHANGE ||
      form.get('requested_token_type') !== ID_JAG ||
      form.get('subject_token_type') !== ID_TOKEN ||
      subject === undefined
    )
      return json(400, { error: 'invalid_request' })
    const scope = form.get('scope')
    const token = await assertion({
      sub: subject,
      aud: String(form.get('audience')),
      client_id: mappedClientId,
      resource: String(form.get('resource')),
      ...(scope !== null && { scope }),
      ...changes,
    })
    json(200, { issued_token_type: ID_JAG, access_token: token, token_type: 'N_A', expires_in: 300, scope })
  })
  return {
    issuer,
    clientId,
    clientSecret,
    jwk,
    get keyFetches() {
      return keyFetches
    },
    exchanges,
    async idToken(subject) {
      const now = Math.floor(Date.now() / 1000)
      const token = await sign(
        { iss: issuer, sub: subject, aud: clientId, iat: now, exp: now + 300 },
        { typ: 'JWT' },
      )
      idTokens.set(token, subject)
      return token
    },
    assertion,
    signed: async (payload) =>
      await new CompactSign(payload)
        .setProtectedHeader({ typ: 'oauth-id-jag+jwt', alg: 'ES256', kid: 'one' })
        .sign(privateKey),
    close: () => stop(http),
  }
}
