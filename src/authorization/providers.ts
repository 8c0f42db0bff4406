import { optionChecksOf } from '../base/options/option-checks.ts'
import { also, type OptionRules, optional, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'

const { checkScopes, checkUrl, fitting, httpsIssuer, invalidOption, readOptions, required, secret, text } =
  optionChecksOf('authorizationFacade')

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
export interface ProviderSettings extends SignInProvider {
  readonly clientId: string
  readonly clientSecret: string
  readonly scopes: readonly string[]
  /** The issuer of an OpenID provider. */
  readonly issuer: string
  /** The endpoints of a provider without OpenID. */
  readonly endpoints?: { readonly authorization: string; readonly token: string; readonly api: string }
  /** Reads further claims from the UserInfo endpoint, if there is one. */
  readonly readsUserInfo: boolean
  /** The value of `prompt` with which a user can choose another account. */
  readonly accountPrompt: 'login' | 'select_account'
  /** Further parameters of the authorization request. */
  readonly parameters: Readonly<Record<string, string>>
}

const CLIENT_RULES = {
  clientId: required(text, 'set it to the client id of this server at the provider'),
  clientSecret: required(secret, 'set it to the client secret of this server at the provider'),
}

const OPENID_RULES = {
  ...CLIENT_RULES,
  scopes: optional(
    also(checkScopes, (option, scopes) => {
      const fix = 'Add it: the user is read from the ID token.'
      if (!scopes.includes('openid')) throw invalidOption(option, "must contain 'openid'", scopes, fix)
    }),
    ['openid', 'profile', 'email'],
  ),
} satisfies RulesFor<ProviderClientOptions>

const GITHUB_RULES = {
  baseUrl: optional((option, value) => {
    const { pathname, search, origin } = checkUrl(option, value, { allowInsecureHttp: 'never' })
    if (pathname === '/' && search === '') return origin
    throw invalidOption(option, 'must not contain a path or a query', value)
  }, 'https://github.com'),
  ...CLIENT_RULES,
  scopes: optional(checkScopes, ['read:user', 'user:email']),
} satisfies RulesFor<GithubOptions>

const TENANT_RULE = required(
  fitting<string>(
    (id) => typeof id === 'string' && /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(id),
    'must be the GUID of a tenant',
    "Copy the directory (tenant) ID from the overview of the app registration; a domain or 'common' is not accepted.",
  ),
  'set it to the id of the tenant',
)

const USER_POOL_RULE = required(
  fitting<string>(
    (id) => typeof id === 'string' && /^[a-z0-9-]{1,30}_[A-Za-z0-9]{1,60}$/.test(id),
    "must be the id of a user pool, such as 'eu-central-1_aBcDeFgHi'",
  ),
  'set it to the id of the user pool',
)

const settings = new WeakMap<object, ProviderSettings>()

/** Returns the settings of a provider, or `undefined` for any other value. */
export function settingsOf(provider: unknown): ProviderSettings | undefined {
  return settings.get(provider as object)
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
  const client = readClient('oidc', options, {
    issuer: required(httpsIssuer, 'set it to the issuer of the OpenID provider'),
    ...OPENID_RULES,
  })
  return register('oidc', { ...client, readsUserInfo: true })
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
  const { tenantId, ...client } = readClient('entra', options, { tenantId: TENANT_RULE, ...OPENID_RULES })
  return register('entra', {
    ...client,
    issuer: `https://login.microsoftonline.com/${tenantId.toLowerCase()}/v2.0`,
    accountPrompt: 'select_account',
  })
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
  return register('google', {
    ...readClient('google', options, OPENID_RULES),
    issuer: 'https://accounts.google.com',
    accountPrompt: 'select_account',
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
  const { baseUrl: origin, ...client } = readClient('github', options, GITHUB_RULES)
  return register('github', {
    ...client,
    issuer: origin,
    accountPrompt: 'select_account',
    endpoints: {
      authorization: `${origin}/login/oauth/authorize`,
      token: `${origin}/login/oauth/access_token`,
      api: origin === 'https://github.com' ? 'https://api.github.com' : `${origin}/api/v3`,
    },
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
  const { userPoolId, ...client } = readClient('cognito', options, {
    userPoolId: USER_POOL_RULE,
    ...OPENID_RULES,
  })
  const region = userPoolId.slice(0, userPoolId.indexOf('_'))
  const issuer = `https://cognito-idp.${region}.amazonaws.com/${userPoolId}`
  return register('cognito', { ...client, issuer, readsUserInfo: true })
}

function readClient<Rules extends OptionRules>(owner: string, options: unknown, rules: Rules): ReadBy<Rules> {
  const expected = 'must be called with an object with at least { clientId, clientSecret }'
  return readOptions(owner, expected, options, rules)
}

function register(
  name: string,
  given: Pick<ProviderSettings, 'clientId' | 'clientSecret' | 'scopes' | 'issuer'> &
    Partial<ProviderSettings>,
): SignInProvider {
  const provider = Object.freeze({ name })
  // OpenID Connect Core requires every provider to support `login`.
  settings.set(provider, { name, readsUserInfo: false, accountPrompt: 'login', parameters: {}, ...given })
  return provider
}
