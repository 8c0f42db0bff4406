import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer, type IncomingMessage } from 'node:http'
import { createLocalJWKSet, exportJWK, jwtVerify, SignJWT } from 'jose'
import { listen, stop } from '../../../examples/listen.ts'
import { withoutNotices } from '../../../src/authorization/server/without-notices.ts'

export const EXCHANGE = 'urn:ietf:params:oauth:grant-type:token-exchange'
const ACCESS_TOKEN = 'urn:ietf:params:oauth:token-type:access_token'

export interface ExchangeServer {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** The exchanges so far. */
  readonly exchanges: readonly URLSearchParams[]
  /** Issues a token for the MCP server to a user, as the authorization server would after a sign-in. */
  issue(subject: string, claims?: Record<string, unknown>): Promise<string>
  close(): Promise<void>
}

/** The MCP server, and the API behind it. */
export const MCP = 'https://mcp.example.com/mcp'
export const API = 'https://api.example.com'

/** Starts `oidc-provider` with the token-exchange grant of RFC 8693 for one confidential client. */
export async function startExchangeServer(): Promise<ExchangeServer> {
  const http = createServer()
  const issuer = `http://127.0.0.1:${await listen(http, 0)}`
  const { Provider, errors } = await withoutNotices(() => import('oidc-provider'))
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const keys = createLocalJWKSet({ keys: [{ ...(await exportJWK(publicKey)), alg: 'ES256' }] })
  const clientId = 'mcp-server'
  const clientSecret = randomBytes(24).toString('base64url')
  const exchanges: URLSearchParams[] = []
  const resourceServer = (identifier: unknown) => {
    if (identifier !== API) throw new errors.InvalidTarget()
    return {
      scope: 'events:read events:write',
      audience: API,
      accessTokenFormat: 'jwt' as const,
      accessTokenTTL: 600,
      jwt: { sign: { alg: 'ES256' as const } },
    }
  }
  const provider = await withoutNotices(
    () =>
      new Provider(issuer, {
        clients: [
          {
            client_id: clientId,
            client_secret: clientSecret,
            grant_types: [EXCHANGE],
            response_types: [],
            redirect_uris: [],
          },
        ],
        scopes: ['events:read', 'events:write'],
        jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }] },
        clientDefaults: { id_token_signed_response_alg: 'ES256' },
        cookies: { keys: [randomBytes(24).toString('base64url')] },
        features: {
          devInteractions: { enabled: false },
          resourceIndicators: {
            enabled: true,
            getResourceServerInfo: (_ctx: unknown, resource: string) => resourceServer(resource),
          },
        },
      }),
  )
  provider.registerGrantType(
    EXCHANGE,
    async (ctx: any) => {
      const { params, client } = ctx.oidc
      exchanges.push(new URLSearchParams(params))
      if (params.subject_token_type !== ACCESS_TOKEN) throw new errors.InvalidRequest('subject_token_type')
      const subject = await jwtVerify(params.subject_token, keys, { issuer, audience: MCP }).catch(() => {
        throw new errors.InvalidGrant('the subject token is not valid')
      })
      const scope = String(params.scope ?? 'events:read')
      const token = new provider.AccessToken({
        accountId: subject.payload.sub,
        client,
        gty: 'token_exchange',
        grantId: randomBytes(8).toString('hex'),
        scope,
      } as never)
      const audience = params.audience ?? params.resource
      Object.assign(token, {
        resourceServer: new provider.ResourceServer(audience, resourceServer(audience)),
      })
      ctx.body = {
        access_token: await (token as any).save(),
        issued_token_type: ACCESS_TOKEN,
        token_type: 'Bearer',
        expires_in: 600,
        scope,
      }
    },
    [
      'subject_token',
      'subject_token_type',
      'requested_token_type',
      'audience',
      'resource',
      'scope',
      'actor_token',
    ],
    ['audience', 'resource'],
  )
  http.on('request', provider.callback())
  return {
    issuer,
    clientId,
    clientSecret,
    exchanges,
    issue: async (subject, claims = {}) =>
      await new SignJWT({ scope: 'mcp:read', client_id: 'desktop', ...claims })
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' })
        .setIssuer(issuer)
        .setAudience(MCP)
        .setSubject(subject)
        .setJti(randomBytes(8).toString('hex'))
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
    close: () => stop(http),
  }
}

/** Reads a form. */
export async function formOf(req: IncomingMessage): Promise<URLSearchParams> {
  let text = ''
  for await (const chunk of req) text += String(chunk)
  return new URLSearchParams(text)
}
