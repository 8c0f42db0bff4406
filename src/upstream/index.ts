export type { UpstreamConsentDetails } from './errors.ts'
export { UpstreamConsentError, UpstreamUnavailableError } from './errors.ts'
export type {
  UpstreamTokenCacheOptions,
  UpstreamTokenOptions,
  UpstreamTokenStore,
  UpstreamTokenStyle,
} from './options.ts'
export type { UpstreamAccessToken } from './token-endpoint.ts'
export type { UpstreamTokens } from './upstream-token.ts'
export { upstreamToken } from './upstream-token.ts'
