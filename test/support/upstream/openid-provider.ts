import { generateKeyPairSync, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import { SignJWT } from 'jose'
import { listen, stop } from '../../../examples/listen.ts'
import { withoutNotices } from '../../../src/authorization/server/without-notices.ts'

export interface TestProvider {
  readonly issuer: string
  readonly clientId: string
  readonly clientSecret: string
  /** Issues a JWT access token without a sign-in. */
  issue(subject: string, audience: string): Promise<string>
  /** Ends the life of all access tokens that were issued to browsers. */
  expireTokens(): void
  /** Sets the user of further sign-ins. */
  signInAs(user: string): void
  /** The query of the last authorization request. */
  readonly asked: URLSearchParams
  /** Sets the time of further sign-ins, in seconds since 1970. */
  signInAt(seconds: number): void
  close(): Promise<void>
}

/** Starts `oidc-provider` with one confidential web client, and one user who signs in and consents at once. */
export async function startOpenIdProvider(firstUser: string, redirectUris: string[]): Promise<TestProvider> {
  let user = firstUser
  let asked = new URLSearchParams()
  const http = createServer()
  const issuer = `http://127.0.0.1:${await listen(http, 0)}`
  const { Provider } = await withoutNotices(() => import('oidc-provider'))
  const { privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const client = { client_id: 'mcp-server', client_secret: randomBytes(24).toString('base64url') }
  let seconds = 3_600
  let signedInAt: number | undefined
  const provider: InstanceType<typeof Provider> = await withoutNotices(
    () =>
      new Provider(issuer, {
        clients: [
          {
            ...client,
            grant_types: ['authorization_code', 'refresh_token'],
            response_types: ['code'],
            redirect_uris: redirectUris,
          },
        ],
        jwks: { keys: [{ ...privateKey.export({ format: 'jwk' }), alg: 'ES256', use: 'sig' }] },
        clientDefaults: { id_token_signed_response_alg: 'ES256' },
        cookies: { keys: [randomBytes(24).toString('base64url')] },
        features: { devInteractions: { enabled: false } },
        issueRefreshToken: () => true,
        findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
        interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
        ttl: {
          AccessToken: () => seconds,
          AuthorizationCode: 60,
          Grant: 3_600,
          IdToken: 3_600,
          Interaction: 600,
          RefreshToken: 3_600,
          Session: 3_600,
        },
        async loadExistingGrant(ctx) {
          const grant = new provider.Grant({ accountId: user, clientId: client.client_id })
          grant.addOIDCScope(String(ctx.oidc.params?.scope))
          await grant.save()
          return grant
        },
      }),
  )
  provider.use(async (ctx, next) => {
    if (ctx.path === '/auth') asked = new URLSearchParams(ctx.search)
    if (!ctx.path.startsWith('/interaction/')) return next()
    ctx.redirect(
      await provider.interactionResult(ctx.req, ctx.res, {
        login: { accountId: user, ...(signedInAt !== undefined && { ts: signedInAt }) },
        consent: {},
      }),
    )
  })
  http.on('request', provider.callback())
  return {
    issuer,
    clientId: client.client_id,
    clientSecret: client.client_secret,
    issue: async (subject, audience) =>
      await new SignJWT({ client_id: 'desktop' })
        .setProtectedHeader({ alg: 'ES256', typ: 'at+jwt' })
        .setIssuer(issuer)
        .setAudience(audience)
        .setSubject(subject)
        .setIssuedAt()
        .setExpirationTime('1h')
        .sign(privateKey),
    expireTokens() {
      seconds = 1
    },
    signInAs(name) {
      user = name
    },
    get asked() {
      return asked
    },
    signInAt(time) {
      signedInAt = time
    },
    close: () => stop(http),
  }
}
