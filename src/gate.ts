export type { NodeMiddleware, NodeRequest } from './base/http/node-middleware.ts'
export { KitMcpConfigError, type KitMcpConfigErrorCode } from './base/options/config-error.ts'
export * from './base/shutdown/graceful-shutdown.ts'
export type { HttpServer } from './base/shutdown/open-connections.ts'
export { authOf } from './express/authenticated-requests.ts'
export { mcpAuth } from './express/mcp-auth.ts'
export type { AllowedOriginsOptions, McpAuthOptions } from './express/mcp-auth-options.ts'
export { type CorsOrigin, type McpCorsOptions, mcpCors } from './express/mcp-cors.ts'
export {
  type ProtectedResourceRouterOptions,
  protectedResourceRouter,
} from './express/protected-resource-router.ts'
export type { GateTarget } from './express/target.ts'
export type { FetchHandler, McpAdapter, McpNotifier, McpTasks } from './mcp/mcp-adapter.ts'
export type { RequiredOperationScopes } from './mcp/router/operation-scopes.ts'
export type { TelemetryOption } from './mcp/telemetry-option.ts'
export type { Actor } from './oauth/actor.ts'
export { AuthInfo } from './oauth/auth-info.ts'
export type { DpopMode, DpopOptions } from './oauth/dpop/options.ts'
export type { DpopReplayStore } from './oauth/dpop/replay-store.ts'
export { VerifierUnavailableError } from './oauth/errors.ts'
export type { VerifyContext, VerifyTokenInput } from './oauth/gate-values.ts'
export type { RateLimiterLike } from './oauth/limits/rate-limiter.ts'
export type { RefusalLimit } from './oauth/limits/refusal-limit.ts'
export type { OAuthOptions, OnVerifiedInput, UserOf, VerifiedToken, VerifyToken } from './oauth/options.ts'
export { type CachedVerifier, type CachedVerifierOptions, cachedVerifier } from './oauth/verifiers/cached.ts'
export { firstMatch } from './oauth/verifiers/first-match.ts'
export {
  type IntrospectionAuthentication,
  type IntrospectionUser,
  type IntrospectionVerifierOptions,
  introspectionVerifier,
} from './oauth/verifiers/introspection.ts'
export { jwtVerifier } from './oauth/verifiers/jwt.ts'
export type { JwtUser, JwtVerifierOptions } from './oauth/verifiers/jwt-options.ts'
export type { PublicKeyInput } from './oauth/verifiers/public-keys.ts'
export type { RedisBroadcastOptions, RedisSubscription } from './redis/broadcast.ts'
export { redisReplayStore } from './redis/replay-store.ts'
export type { RedisClient } from './redis/run-script.ts'
export { shareInvalidations } from './redis/share-invalidations.ts'
