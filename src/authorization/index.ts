export type {
  AllowClientInput,
  AuthorizationClientsOptions,
  ClientKind,
  StaticClient,
} from './clients/client-options.ts'
export type { RedirectClient } from './clients/redirect-uris.ts'
export { type AuthorizationFacade, authorizationFacade, type FacadeGrants } from './facade.ts'
export type { ConnectedGrant } from './grants/grants.ts'
export type { IdentityAssertionIssuer, IdentityAssertionsOptions } from './grants/identity-assertions.ts'
export type { AuthorizationTokensOptions } from './grants/token-options.ts'
export type { AuthorizationKeys } from './keys.ts'
export type {
  AllowInput,
  AllowResult,
  AuthorizationFacadeOptions,
  AuthorizationGrantsOptions,
  AuthorizationPageOptions,
  GrantScopesInput,
  SignInClaims,
} from './options.ts'
export type {
  CognitoOptions,
  EntraOptions,
  GithubOptions,
  OidcOptions,
  ProviderClientOptions,
  SignInProvider,
} from './providers.ts'
export { cognito, entra, github, google, oidc } from './providers.ts'
export type { AuthorizationStore, StoreRedisClient } from './store.ts'
export { memoryStore, redisStore } from './store.ts'
