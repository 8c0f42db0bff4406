import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'

const {
  checkIssuer,
  checkKnownOptions,
  checkScopes,
  checkSecret,
  checkText,
  checkUrl,
  invalidKind,
  invalidOption,
  missingOption,
} = optionChecksOf('authorizationFacade')

const STRICT = { allowInsecureHttp: 'never' } as const

/** An identity provider at which users sign in. Created by {@link oidc}, {@link entra}, {@link google}, {@link github}, or {@link cognito}. */
export interface SignInProvider {
  /** The name of the provider, which is the first part of the `sub` of tokens. */
  readonly name: string
}

/** The client of this server at an identity provider. */
export interface ProviderClientOptions {
  /** The client id of this server at the provider. */
  readonly clientId: string
  /** The client secret. Errors never contain it. */
  readonly clientSecret: string
  /** The scopes that this server requests from the provider. The default depends on the provider. */
  readonly scopes?: readonly string[] | undefined
}

/** Options of {@link oidc}. */
export interface OidcOptions extends ProviderClientOptions {
  /** The issuer of the provider. Its metadata is read from `/.well-known/openid-configuration`. */
  readonly issuer: string
}

/** Options of {@link entra}. */
export interface EntraOptions extends ProviderClientOptions {
  /** The id of the tenant, a GUID. Only its users can sign in. */
  readonly tenantId: string
}

/** Options of {@link github}. */
export interface GithubOptions extends ProviderClientOptions {
  /** The address of a GitHub Enterprise Server. Defaults to `https://github.com`. */
  readonly baseUrl?: string | undefined
}

/** Options of {@link cognito}. */
export interface CognitoOptions extends ProviderClientOptions {
  /** The id of the user pool, such as `eu-central-1_aBcDeFgHi`. */
  readonly userPoolId: string
}

/** The settings of a provider. */
export interface ProviderSettings {
  readonly clientId: string
  readonly clientSecret: string
  readonly scopes: readonly string[]
  /** The issuer of an OpenID provider. */
  readonly issuer: string
  /** The endpoints of a provider without OpenID. */
  readonly endpoints?: { readonly authorization: string; readonly token: string; readonly api: string }
  /** Reads further claims from the UserInfo endpoint, if there is one. */
  readonly readsUserInfo: boolean
  /** Further parameters of the authorization request. */
  readonly parameters: Readonly<Record<string, string>>
}

const settings = new WeakMap<object, ProviderSettings>()

/** Returns the settings of a provider, or `undefined` for any other value. */
export function settingsOf(provider: unknown): ProviderSettings | undefined {
  return typeof provider === 'object' && provider !== null ? settings.get(provider) : undefined
}

/**
 * Describes an OpenID provider at which users sign in.
 * @param options the issuer, and the client of this server there. `scopes` defaults to `openid`, `profile`, and `email`.
 * @returns a provider for the option `upstream` of `authorizationFacade`.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { oidc } from 'mcp-gatekit/authorization'
 *
 * const upstream = oidc({
 *   issuer: 'https://login.example.com',
 *   clientId: 'mcp-server',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 * })
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function oidc(options: OidcOptions): SignInProvider {
  const client = clientOf('oidc', options, ['issuer'])
  if (options.issuer === undefined)
    throw missingOption('issuer', 'set it to the issuer of the OpenID provider')
  const issuer = checkIssuer('issuer', options.issuer, STRICT)
  return openIdProvider('oidc', client, { issuer, readsUserInfo: true })
}

/**
 * Describes a tenant of Microsoft Entra ID at which users sign in.
 * @param options the tenant, and the app registration. `scopes` defaults to `openid`, `profile`, and `email`.
 * @returns a provider for the option `upstream` of `authorizationFacade`.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { entra } from 'mcp-gatekit/authorization'
 *
 * const upstream = entra({
 *   tenantId: '11111111-2222-3333-4444-555555555555',
 *   clientId: '66666666-7777-8888-9999-000000000000',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 * })
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function entra(options: EntraOptions): SignInProvider {
  const client = clientOf('entra', options, ['tenantId'])
  const { tenantId } = options
  if (tenantId === undefined) throw missingOption('tenantId', 'set it to the id of the tenant')
  if (typeof tenantId !== 'string' || !/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(tenantId))
    throw invalidOption(
      'tenantId',
      'must be the GUID of a tenant',
      tenantId,
      "Copy the directory (tenant) ID from the overview of the app registration; a domain or 'common' is not accepted.",
    )
  const issuer = `https://login.microsoftonline.com/${tenantId.toLowerCase()}/v2.0`
  return openIdProvider('entra', client, { issuer, readsUserInfo: false })
}

/**
 * Describes Google as the provider at which users sign in. Every Google account can sign in there, so that `allow` must check
 * the claims `hd` or `email`.
 * @param options the OAuth client. `scopes` defaults to `openid`, `profile`, and `email`.
 * @returns a provider for the option `upstream` of `authorizationFacade`.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { google } from 'mcp-gatekit/authorization'
 *
 * const upstream = google({
 *   clientId: '1234.apps.googleusercontent.com',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 * })
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function google(options: ProviderClientOptions): SignInProvider {
  const client = clientOf('google', options, [])
  return openIdProvider('google', client, {
    issuer: 'https://accounts.google.com',
    readsUserInfo: false,
    // Google issues a refresh token only for this parameter.
    parameters: { access_type: 'offline' },
  })
}

/**
 * Describes GitHub as the provider at which users sign in, with OAuth and the user API, because GitHub does not support OpenID.
 * Every GitHub account can sign in there, so that `allow` must check the claims `login` or `email`. The claim `sub` is the
 * numeric id of the account.
 * @param options the OAuth app. `scopes` defaults to `read:user` and `user:email`.
 * @returns a provider for the option `upstream` of `authorizationFacade`.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { github } from 'mcp-gatekit/authorization'
 *
 * const upstream = github({
 *   clientId: 'Iv1.0123456789abcdef',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 * })
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function github(options: GithubOptions): SignInProvider {
  const { clientId, clientSecret, scopes } = clientOf('github', options, ['baseUrl'])
  const { baseUrl = 'https://github.com' } = options
  const url = checkUrl('baseUrl', baseUrl, STRICT)
  if (url.pathname !== '/' || url.search !== '')
    throw invalidOption('baseUrl', 'must not contain a path or a query', baseUrl)
  const { origin } = url
  return register('github', {
    clientId,
    clientSecret,
    scopes: scopes ?? ['read:user', 'user:email'],
    issuer: origin,
    endpoints: {
      authorization: `${origin}/login/oauth/authorize`,
      token: `${origin}/login/oauth/access_token`,
      api: origin === 'https://github.com' ? 'https://api.github.com' : `${origin}/api/v3`,
    },
    readsUserInfo: false,
    parameters: {},
  })
}

/**
 * Describes a user pool of Amazon Cognito at which users sign in.
 * @param options the user pool, and its app client. `scopes` defaults to `openid`, `profile`, and `email`.
 * @returns a provider for the option `upstream` of `authorizationFacade`.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown.
 * @example
 * ```ts
 * import { cognito } from 'mcp-gatekit/authorization'
 *
 * const upstream = cognito({
 *   userPoolId: 'eu-central-1_aBcDeFgHi',
 *   clientId: '0123456789abcdefghijklmnop',
 *   clientSecret: String(process.env.CLIENT_SECRET),
 * })
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function cognito(options: CognitoOptions): SignInProvider {
  const client = clientOf('cognito', options, ['userPoolId'])
  const { userPoolId } = options
  if (userPoolId === undefined) throw missingOption('userPoolId', 'set it to the id of the user pool')
  const [, region] =
    typeof userPoolId === 'string' ? (/^([a-z0-9-]{1,30})_[A-Za-z0-9]{1,60}$/.exec(userPoolId) ?? []) : []
  if (region === undefined)
    throw invalidOption(
      'userPoolId',
      "must be the id of a user pool, such as 'eu-central-1_aBcDeFgHi'",
      userPoolId,
    )
  const issuer = `https://cognito-idp.${region}.amazonaws.com/${userPoolId}`
  return openIdProvider('cognito', client, { issuer, readsUserInfo: true })
}

function clientOf(
  owner: string,
  options: ProviderClientOptions,
  more: readonly string[],
): Pick<ProviderSettings, 'clientId' | 'clientSecret'> & { readonly scopes: readonly string[] | undefined } {
  if (!isOptionsObject(options))
    throw invalidKind(
      owner,
      'must be called with an object with at least { clientId, clientSecret }',
      options,
    )
  checkKnownOptions(owner, options, [...more, 'clientId', 'clientSecret', 'scopes'])
  const { clientId, clientSecret, scopes } = options
  if (clientId === undefined)
    throw missingOption('clientId', 'set it to the client id of this server at the provider')
  checkText('clientId', clientId)
  if (clientSecret === undefined)
    throw missingOption('clientSecret', 'set it to the client secret of this server at the provider')
  checkSecret('clientSecret', clientSecret)
  return { clientId, clientSecret, scopes: scopes === undefined ? undefined : checkScopes('scopes', scopes) }
}

function openIdProvider(
  name: string,
  client: ReturnType<typeof clientOf>,
  rest: Pick<ProviderSettings, 'issuer' | 'readsUserInfo'> & Partial<ProviderSettings>,
): SignInProvider {
  const scopes = client.scopes ?? ['openid', 'profile', 'email']
  if (!scopes.includes('openid'))
    throw invalidOption(
      'scopes',
      "must contain 'openid'",
      undefined,
      'Add it: the user is read from the ID token.',
    )
  return register(name, { ...client, parameters: {}, ...rest, scopes })
}

function register(name: string, value: ProviderSettings): SignInProvider {
  const provider = Object.freeze({ name })
  settings.set(provider, value)
  return provider
}
