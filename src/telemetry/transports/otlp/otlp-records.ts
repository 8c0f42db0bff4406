import type * as Api from '@opentelemetry/api'
import type { Resource } from '@opentelemetry/resources'
import type * as Sdk from '@opentelemetry/sdk-logs'
import { VERSION } from '../../../version.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import type { SdkLogRecord } from './otlp-export-slot.ts'
import { type OtlpAttributes, type OtlpRecord, otlpRecordIn, writeOtlpAttributes } from './otlp-record.ts'

/** The name of the instrumentation scope. Its version is that of the package. */
export const SCOPE_NAME = 'mcp-gatekit'

/** An event that waits for its request. It takes less memory than a record of the SDK. */
export interface OtlpEvent {
  readonly envelope: TelemetryEnvelope
  /** When the event was emitted, in milliseconds since 1970. */
  readonly emittedAtMs: number
  /** The span that was active then. */
  readonly span: Api.SpanContext | undefined
}

/** Creates the records of the OpenTelemetry SDK for events, when they are sent. */
export class OtlpRecords {
  readonly #api: typeof Api
  readonly #logger: { emit(record: OtlpRecord & { readonly context: Api.Context }): void }
  #created: SdkLogRecord | undefined

  constructor(api: typeof Api, sdk: typeof Sdk, resource: Resource) {
    this.#api = api
    const processor: Sdk.LogRecordProcessor = {
      onEmit: (record) => {
        this.#created = record
      },
      forceFlush: () => Promise.resolve(),
      shutdown: () => Promise.resolve(),
    }
    const provider = new sdk.LoggerProvider({ resource, processors: [processor] })
    this.#logger = provider.getLogger(SCOPE_NAME, VERSION)
  }

  /** Returns the active span. */
  activeSpan(): Api.SpanContext | undefined {
    const { context, trace } = this.#api
    return trace.getSpanContext(context.active())
  }

  /** @throws {Error} if the SDK cannot create a record. */
  create({ envelope, emittedAtMs, span }: OtlpEvent): SdkLogRecord {
    const { ROOT_CONTEXT, trace } = this.#api
    const context = span === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, span)
    this.#created = undefined
    this.#logger.emit(otlpRecordIn(context, envelope, emittedAtMs))
    const record = this.#created as SdkLogRecord | undefined
    if (record === undefined) throw new Error('The OpenTelemetry SDK did not create a record')
    this.#created = undefined
    // They are not passed to `emit`, which would copy them, and would drop those beyond 128 and maps with a key `constructor`.
    writeOtlpAttributes(envelope, record.attributes as OtlpAttributes)
    return record
  }
}
