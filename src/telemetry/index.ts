export {
  KitTelemetry,
  type TelemetryConfig,
  type TelemetryTransportOptions,
} from './builder.ts'
export type {
  TelemetryCatalogueEvent,
  TelemetryEventCatalogue,
  TelemetryJsonSchema,
} from './catalogue.ts'
export { COMMON_SECRET_KEYS } from './common-secret-keys.ts'
export type { TelemetryTransportEntry, TelemetryTransportStats } from './delivery.ts'
export type {
  TelemetryActor,
  TelemetryAttributes,
  TelemetryEmitInput,
  TelemetryEnvelope,
  TelemetryErrorInfo,
  TelemetryScope,
  TelemetrySource,
} from './envelope.ts'
export {
  KIT_TELEMETRY_ERROR_CODES,
  KitTelemetryError,
  type KitTelemetryErrorCode,
  type KitTelemetryErrorOptions,
} from './errors.ts'
export {
  KitTelemetryEvents,
  type TelemetryEventMap,
  type TelemetryEventSchema,
  type TelemetryEventsDescriptor,
  type TelemetryGroupBuilder,
  type TelemetryNamespaceBuilder,
} from './events.ts'
export { isTelemetryLevel, LEVEL_PRIORITY, type TelemetryLevel } from './levels.ts'
export { KitTelemetryManager, type TelemetryDeadlineOptions, type TelemetryStats } from './manager.ts'
export type { TelemetryParticipantOptions, TelemetryParticipantType } from './participants.ts'
export type { ResolvedRedactionPolicy, TelemetryRedactionPolicy } from './redaction.ts'
export type { TelemetryLogger } from './reporter.ts'
export type { ResolvedSamplingPolicy, TelemetrySamplingPolicy } from './sampling.ts'
export { KitTelemetrySession, type TelemetryEventAttributes, type TelemetrySessionState } from './session.ts'
export type { TelemetryTransport, TelemetryTransportMeta } from './transport.ts'
export {
  CommunityChatTransportAdapter,
  type CommunityChatTransportOptions,
} from './transports/community-chat.ts'
export {
  DevConsoleTransportAdapter,
  type DevConsoleTransportOptions,
} from './transports/dev-console.ts'
export {
  type ErrorTrackerContext,
  type ErrorTrackerLevel,
  type ErrorTrackerScope,
  type ErrorTrackerSdk,
  ErrorTrackerTransportAdapter,
  type ErrorTrackerTransportOptions,
} from './transports/error-tracker.ts'
export {
  type HttpBatchOptions,
  HttpTransportAdapter,
  type HttpTransportOptions,
} from './transports/http.ts'
export { InMemoryTransportAdapter } from './transports/in-memory.ts'
export { type LineLogger, LoggerTransportAdapter, type LoggerTransportOptions } from './transports/logger.ts'
export { MessengerTransportAdapter, type MessengerTransportOptions } from './transports/messenger.ts'
export { MockTelemetryAdapter } from './transports/mock.ts'
export {
  type OtlpLoggerProvider,
  OtlpTransportAdapter,
  type OtlpTransportOptions,
} from './transports/otlp.ts'
export {
  StoreStreamTransportAdapter,
  type StoreStreamTransportOptions,
  type StreamStore,
} from './transports/store-stream.ts'
export type { FetchDispatcher, TargetConnectionOptions } from './transports/target-options.ts'
export { TeamChatTransportAdapter, type TeamChatTransportOptions } from './transports/team-chat.ts'
export type { ResolvedValidationOptions, TelemetryValidationOptions } from './validation.ts'
