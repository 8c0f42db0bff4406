export { aiCatalog } from './express/ai-catalog.ts'
export { mcpHandler } from './express/mcp-handler.ts'
export { type McpDiscoveryOptions, type McpServerOptions, mcpServer } from './express/mcp-server.ts'
export * from './gate.ts'
export {
  type CreateMcpAdapterOptions,
  createMcpAdapter,
  KitMcpServer,
  type RouterOption,
  type SdkV1Factory,
  type SdkV1Server,
  type ServedRouter,
  type UnservedRouter,
} from './mcp/adapter.ts'
export type { EmitOptions, EventRecipient, EventSubscriber } from './mcp/events/event-emitter.ts'
export type { EventStats } from './mcp/events/event-ledger.ts'
export type { McpEventOptions, McpWebhookOptions } from './mcp/events/event-options.ts'
export { type MemoryEventStoreOptions, memoryEventStore } from './mcp/events/memory-event-store.ts'
export type {
  Delivery,
  DeliveryOutcome,
  DeliveryStatus,
  EventStore,
  EventStoreLimits,
  LoggedEvent,
  LogPage,
  Position,
  StoredAuth,
  StoredSubscription,
  Subscriber,
  SubscriptionRecord,
  WebhookError,
  WebhookSecret,
  WebhookTarget,
} from './mcp/events/store.ts'
export type { McpDiscoveryHandlers, McpEvents } from './mcp/mcp-adapter.ts'
export type {
  McpAdapterOptions,
  McpConfirmationOptions,
  McpStreamOptions,
  ServerInfo,
} from './mcp/options.ts'
export type { McpAppConfig, McpAppCsp, McpAppPermissions, ToolVisibility } from './mcp/router/apps/app.ts'
export type { Authorize, PolicyDecision, PolicyDenial, PolicyQuery } from './mcp/router/authorize.ts'
export type { Completer, CompletionInput } from './mcp/router/completers.ts'
export type { KitContext } from './mcp/router/context.ts'
export type { EventConfig, EventDelivery, EventPolicyQuery } from './mcp/router/event.ts'
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
export type { ToolConfig, ToolHandler, ToolPolicyQuery, ToolResult } from './mcp/router/tool.ts'
export { KitToolError } from './mcp/router/tool-error.ts'
export type { TemplateVariables } from './mcp/router/uris/uri-template.ts'
export type { ServerFactory, ServerFactoryContext } from './mcp/sdk/sdk-servers.ts'
export type { McpSessionOptions } from './mcp/sdk/sessions/sessions.ts'
export type { CardRepository } from './mcp/server-card.ts'
export { type ServeStdioOptions, type StdioServer, serveStdio } from './mcp/stdio/serve-stdio.ts'
export { type MemoryTaskStoreOptions, memoryTaskStore } from './mcp/tasks/memory-task-store.ts'
export type { McpTaskOptions } from './mcp/tasks/task-options.ts'
export type { StoredTask, TaskKey, TaskLimits, TaskStore } from './mcp/tasks/task-store.ts'
export { type RedisEventBus, redisEventBus } from './redis/event-bus.ts'
export {
  type RedisEventStore,
  type RedisEventStoreOptions,
  redisEventStore,
} from './redis/event-store.ts'
export type { RedisScriptClient } from './redis/run-script.ts'
export {
  type RedisTaskStore,
  type RedisTaskStoreOptions,
  redisTaskStore,
} from './redis/task-store.ts'
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
  type GivenHeaders,
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
  type OtlpResourceAttributes,
  type OtlpResourceValue,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
  RedisStreamTransportAdapter,
  SentryTransportAdapter,
  type SerializeEnvelopes,
  SlackTransportAdapter,
  StoreStreamTransportAdapter,
  type StoreStreamTransportOptions,
  type TargetConnectionOptions,
  TeamChatTransportAdapter,
  type TeamChatTransportOptions,
  TelegramTransportAdapter,
  type TelemetryActor,
  type TelemetryAttributes,
  type TelemetryAttributesSource,
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
  type TelemetryId,
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
  type TelemetryTrace,
  type TelemetryTransport,
  type TelemetryTransportMeta,
  type TelemetryTransportOptions,
  type TelemetryTransportStats,
  type TelemetryValidationOptions,
} from './telemetry/index.ts'
