export { mcpAuth } from './express/mcp-auth.ts'
export type { AllowedOriginsOptions, McpAuthOptions } from './express/mcp-auth-options.ts'
export { type CorsOrigin, type McpCorsOptions, mcpCors } from './express/mcp-cors.ts'
export { mcpHandler } from './express/mcp-handler.ts'
export { type McpServerOptions, mcpServer } from './express/mcp-server.ts'
export {
  type ProtectedResourceRouterOptions,
  protectedResourceRouter,
} from './express/protected-resource-router.ts'
export type { GateTarget } from './express/target.ts'
export type { NodeMiddleware, NodeRequest } from './http/node-middleware.ts'
export {
  type CreateMcpAdapterOptions,
  createMcpAdapter,
  type FetchHandler,
  KitMcpServer,
  type McpAdapter,
  type McpNotifier,
  type RouterOption,
} from './mcp/adapter.ts'
export type { Authorize, PolicyDecision, PolicyDenial, PolicyQuery } from './mcp/operations/policy.ts'
export type { McpAdapterOptions, McpStreamOptions, ServerInfo } from './mcp/options.ts'
export type { McpAppConfig, McpAppCsp, McpAppPermissions, ToolVisibility } from './mcp/router/app.ts'
export type { Completer, CompletionInput } from './mcp/router/completers.ts'
export type { KitContext } from './mcp/router/context.ts'
export type { InputRequired } from './mcp/router/input-required.ts'
export type {
  CallLimit,
  ConcurrencyLimit,
  LimitedBy,
  LimitStore,
  LimitStoreOptions,
  McpLimits,
} from './mcp/router/limits.ts'
export type {
  Middleware,
  MiddlewareCall,
  MiddlewareNext,
  MiddlewareResult,
  OperationKind,
} from './mcp/router/middleware.ts'
export type { OperationScopes, PublicOperations } from './mcp/router/operation-scopes.ts'
export type { PromptConfig, PromptHandler, PromptResult } from './mcp/router/prompt.ts'
export type {
  ListedResource,
  ResourceConfig,
  ResourceHandler,
  ResourceTemplateConfig,
  ResourceTemplateHandler,
} from './mcp/router/resource.ts'
export { KitMcpRouter, type KitMcpTypeError } from './mcp/router/router.ts'
export type { AppContextFactory } from './mcp/router/router-table.ts'
export type { LoadedSkills, SkillInfo, SkillsConfig } from './mcp/router/skills.ts'
export type { ToolConfig, ToolHandler, ToolResult } from './mcp/router/tool.ts'
export { KitToolError } from './mcp/router/tool-error.ts'
export type { TemplateVariables } from './mcp/router/uris/uri-template.ts'
export type { ServerFactory, ServerFactoryContext } from './mcp/sdk/sdk-servers.ts'
export type { McpSessionOptions } from './mcp/sdk/sessions/sessions.ts'
export { type ServeStdioOptions, type StdioServer, serveStdio } from './mcp/stdio/serve-stdio.ts'
export { type MemoryTaskStoreOptions, memoryTaskStore } from './mcp/tasks/memory-task-store.ts'
export type { McpTaskOptions } from './mcp/tasks/task-options.ts'
export type { StoredTask, TaskKey, TaskLimits, TaskStore } from './mcp/tasks/task-store.ts'
export type { McpTasks } from './mcp/tasks/tasks.ts'
export { AuthInfo } from './oauth/auth-info.ts'
export type { DpopMode, DpopOptions } from './oauth/dpop/options.ts'
export type { DpopReplayStore } from './oauth/dpop/replay-store.ts'
export { VerifierUnavailableError } from './oauth/errors.ts'
export type {
  OAuthOptions,
  OnVerifiedInput,
  UserOf,
  VerifiedToken,
  VerifyContext,
  VerifyToken,
  VerifyTokenInput,
} from './oauth/options.ts'
export type { RateLimiterLike } from './oauth/rate-limiter.ts'
export type { RefusalLimit } from './oauth/refusal-limit.ts'
export { type CachedVerifier, type CachedVerifierOptions, cachedVerifier } from './oauth/verifiers/cached.ts'
export { firstMatch } from './oauth/verifiers/first-match.ts'
export { introspectionVerifier } from './oauth/verifiers/introspection.ts'
export type {
  IntrospectionAuthentication,
  IntrospectionUser,
  IntrospectionVerifierOptions,
} from './oauth/verifiers/introspection-options.ts'
export { jwtVerifier } from './oauth/verifiers/jwt.ts'
export type { JwtUser, JwtVerifierOptions } from './oauth/verifiers/jwt-options.ts'
export type { PublicKeyInput } from './oauth/verifiers/public-keys.ts'
export { KitMcpConfigError, type KitMcpConfigErrorCode } from './options/config-error.ts'
export type { RedisBroadcastOptions, RedisClients, RedisSubscription } from './redis/broadcast.ts'
export { type RedisEventBus, redisEventBus } from './redis/event-bus.ts'
export { redisReplayStore } from './redis/replay-store.ts'
export { shareInvalidations } from './redis/share-invalidations.ts'
export {
  type RedisTaskStore,
  type RedisTaskStoreOptions,
  redisTaskStore,
  type TaskRedisClient,
} from './redis/task-store.ts'
export {
  type GracefulShutdown,
  type GracefulShutdownOptions,
  gracefulShutdown,
  type ShutdownReport,
  type ShutdownTasks,
  type ShutdownTelemetry,
} from './server-shutdown/graceful-shutdown.ts'
export type { HttpServer } from './server-shutdown/open-connections.ts'
export {
  COMMON_SECRET_KEYS,
  COMMON_SECRET_PATTERNS,
  CommunityChatTransportAdapter,
  type CommunityChatTransportOptions,
  DevConsoleTransportAdapter,
  type DevConsoleTransportOptions,
  DiscordTransportAdapter,
  type ErrorTrackerContext,
  type ErrorTrackerLevel,
  type ErrorTrackerScope,
  type ErrorTrackerSdk,
  ErrorTrackerTransportAdapter,
  type ErrorTrackerTransportOptions,
  type FetchDispatcher,
  HttpTransportAdapter,
  type HttpTransportOptions,
  InMemoryTransportAdapter,
  isTelemetryLevel,
  KIT_TELEMETRY_ERROR_CODES,
  KitTelemetry,
  KitTelemetryError,
  type KitTelemetryErrorCode,
  KitTelemetryEvents,
  KitTelemetryManager,
  KitTelemetrySession,
  LEVEL_PRIORITY,
  type LineLogger,
  LoggerTransportAdapter,
  type LoggerTransportOptions,
  MessengerTransportAdapter,
  type MessengerTransportOptions,
  MockTelemetryAdapter,
  type ObjectLogger,
  type ObjectLoggerTransportOptions,
  type OtlpLoggerProvider,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
  RedisStreamTransportAdapter,
  SentryTransportAdapter,
  SlackTransportAdapter,
  StoreStreamTransportAdapter,
  type StoreStreamTransportOptions,
  type TargetConnectionOptions,
  TeamChatTransportAdapter,
  type TeamChatTransportOptions,
  TelegramTransportAdapter,
  type TelemetryActor,
  type TelemetryAttributes,
  type TelemetryCatalogueEvent,
  type TelemetryDeadlineOptions,
  type TelemetryEmitArguments,
  type TelemetryEmitInput,
  type TelemetryEnvelope,
  type TelemetryErrorInfo,
  type TelemetryEventAttributes,
  type TelemetryEventCatalogue,
  type TelemetryEventMap,
  type TelemetryEventName,
  type TelemetryEventSchema,
  type TelemetryEventsDescriptor,
  type TelemetryJsonSchema,
  type TelemetryLevel,
  type TelemetryLogger,
  type TelemetryRedactionPattern,
  type TelemetryRedactionPolicy,
  type TelemetryRequiredInput,
  type TelemetrySamplingPolicy,
  type TelemetryScope,
  type TelemetrySessionState,
  type TelemetrySource,
  type TelemetryStats,
  type TelemetryTransport,
  type TelemetryTransportMeta,
  type TelemetryTransportOptions,
  type TelemetryTransportStats,
  type TelemetryValidationOptions,
} from './telemetry/index.ts'
