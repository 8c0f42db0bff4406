export * from '../base/shutdown/graceful-shutdown.ts'
export type { HttpServer } from '../base/shutdown/open-connections.ts'
export type { TelemetryTransportOptions } from './added-transport.ts'
export type { TelemetryAuditOptions } from './audit/audit-options.ts'
export { type TelemetryAuditVerification, verifyAudit } from './audit/verify-audit.ts'
export { KitTelemetry } from './builder.ts'
export type { TelemetryConfig } from './config.ts'
export type { TelemetryLogger } from './delivery/reporter.ts'
export type {
  TelemetryStats,
  TelemetryTransport,
  TelemetryTransportMeta,
  TelemetryTransportStats,
} from './delivery/transport.ts'
export { COMMON_SECRET_KEYS } from './envelope/common-secret-keys.ts'
export * from './envelope/envelope.ts'
export type { TelemetryRedactionPolicy } from './envelope/redaction.ts'
export { COMMON_SECRET_PATTERNS, type TelemetryRedactionPattern } from './envelope/secret-patterns.ts'
export * from './errors.ts'
export type { TelemetryTypeOptions } from './events/actor-types.ts'
export type {
  TelemetryCatalogueEvent,
  TelemetryEventCatalogue,
  TelemetryJsonSchema,
} from './events/catalogue.ts'
export * from './events/event-registry.ts'
export type { TelemetryEventMap, TelemetryEventSchema } from './events/schema.ts'
export type { TelemetryValidationOptions } from './events/validation.ts'
export * from './http-telemetry.ts'
export { isTelemetryLevel, LEVEL_PRIORITY, type TelemetryLevel } from './levels.ts'
export { KitTelemetryManager, type TelemetryDeadlineOptions } from './manager.ts'
export type { TelemetrySamplingPolicy } from './session/sampling.ts'
export {
  KitTelemetrySession,
  type TelemetryEmitArguments,
  type TelemetryEventAttributes,
  type TelemetryEventName,
  type TelemetrySessionState,
} from './session/session.ts'
export { type AuditFileOptions, auditFile } from './transports/audit-file/audit-file.ts'
export * from './transports/chat/adapters.ts'
export {
  CommunityChatTransportAdapter as DiscordTransportAdapter,
  MessengerTransportAdapter as TelegramTransportAdapter,
  TeamChatTransportAdapter as SlackTransportAdapter,
} from './transports/chat/adapters.ts'
export type { ChatOptions } from './transports/chat/chat.ts'
export * from './transports/dev-console.ts'
export * from './transports/error-tracker.ts'
export { ErrorTrackerTransportAdapter as SentryTransportAdapter } from './transports/error-tracker.ts'
export * from './transports/http/http.ts'
export type {
  FetchDispatcher,
  GivenHeaders,
  TargetConnectionOptions,
} from './transports/http/target-options.ts'
export * from './transports/in-memory.ts'
export * from './transports/logger.ts'
export type { ObjectLogger, ObjectLoggerTransportOptions } from './transports/logger-objects.ts'
export {
  type OtlpLoggerProvider,
  type OtlpResourceAttributes,
  type OtlpResourceValue,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
} from './transports/otlp/otlp.ts'
export * from './transports/store-stream/store-stream.ts'
export { StoreStreamTransportAdapter as RedisStreamTransportAdapter } from './transports/store-stream/store-stream.ts'
