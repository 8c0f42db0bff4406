import type * as Api from '@opentelemetry/api'
import type { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import type { Resource } from '@opentelemetry/resources'
import type { LogRecordProcessor } from '@opentelemetry/sdk-logs'
import { VERSION } from '../../../version.ts'
import type { TelemetryTransport, TelemetryTransportMeta } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { KitTelemetryError } from '../../errors.ts'
import { OtlpDelivery } from './otlp-delivery.ts'
import type { ExporterWishes, SdkLogRecord } from './otlp-export-slot.ts'
import { type OtlpSettings, type OtlpTransportOptions, readOtlpOptions } from './otlp-options.ts'
import { type OtlpAttributes, type OtlpRecord, toOtlpRecord, writeOtlpAttributes } from './otlp-record.ts'
import { type Weigh, weighIn } from './otlp-weight.ts'

export type { OtlpLoggerProvider, OtlpTransportOptions } from './otlp-options.ts'
export type { OtlpAttributes, OtlpRecord, OtlpValue } from './otlp-record.ts'

/** Name of the instrumentation scope; its version is the package's. */
const SCOPE_NAME = 'mcp-gatekit'

/** The most bytes of a request that proxies take by default (nginx). */
const MAX_REQUEST_BYTES = 2 ** 20

/** The bytes that a request has beside its records and its resource, or more. */
const REQUEST_BYTES = 1_024

interface RecordLogger {
  emit(record: OtlpRecord): void
}

/** An event between `handle` and the SDK's record of it, which comes within the same call. */
interface ArrivingEvent {
  readonly envelope: TelemetryEnvelope
  readonly sent: OtlpRecord
  /** Settles with the event, once there is a record. */
  taken?: Promise<void>
}

/**
 * Sends events to an OpenTelemetry collector as log records, over OTLP/HTTP, through the
 * OpenTelemetry logs SDK (2.x and 3.x lines). Its packages are optional peers, loaded by `init`:
 * `@opentelemetry/api`, `@opentelemetry/sdk-logs`, `@opentelemetry/resources`, and
 * `@opentelemetry/exporter-logs-otlp-http` or, for protobuf, `-proto`.
 *
 * Delivery is at least once: an attempt that ran out of time may have reached the collector before
 * it is repeated. Of a batch that the collector accepts only in part, as many events as it rejected count
 * as failed; which they are it does not say, and why only to OpenTelemetry's `diag` logger.
 *
 * @example
 * OtlpTransportAdapter.create({ url: 'http://localhost:4318' })
 */
export class OtlpTransportAdapter implements TelemetryTransport {
  readonly type = 'otlp'
  readonly maxPending: number
  readonly #settings: OtlpSettings
  #logger: RecordLogger | undefined
  #delivery: OtlpDelivery | undefined
  #arriving: ArrivingEvent | undefined
  #closed = false

  private constructor(settings: OtlpSettings) {
    this.#settings = settings
    this.maxPending = settings.maxPending
    this.#logger = settings.loggerProvider?.getLogger(SCOPE_NAME, VERSION)
  }

  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be,
   * naming it. Neither the url nor a header's value is repeated in any message.
   */
  static create(options: OtlpTransportOptions): OtlpTransportAdapter {
    return new OtlpTransportAdapter(readOtlpOptions(options))
  }

  /**
   * Loads OpenTelemetry. With `loggerProvider` there is nothing to load.
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_INIT_FAILED` naming the packages to install.
   */
  async init(meta: TelemetryTransportMeta): Promise<void> {
    if (this.#logger !== undefined) return
    const { api, sdk, resources, exporter } = await loadOpenTelemetry(this.#settings.encoding)
    const resource = resources
      .defaultResource()
      .merge(describeService(meta, resources.resourceFromAttributes))
    const delivery = new OtlpDelivery({
      makeExporter: exporterMaker(exporter.OTLPLogExporter, this.#settings),
      headers: this.#settings.headers,
      untraced: untracedBy(api),
      timeoutMs: this.#settings.timeout,
      retryBudgetMs: this.#settings.retryBudgetMs,
      agent: this.#settings.agent,
      proxy: this.#settings.proxy,
      maxWeight: MAX_REQUEST_BYTES - REQUEST_BYTES - bytesOf(resource),
    })
    const weigh = weighIn(this.#settings.encoding)
    const provider = new sdk.LoggerProvider({ resource, processors: [this.#processor(delivery, weigh)] })
    this.#logger = provider.getLogger(SCOPE_NAME, VERSION)
    this.#delivery = delivery
  }

  /**
   * Takes one event. The span that is active now is the one the record names.
   * @returns with `loggerProvider`, nothing; else a promise that resolves when the collector has
   * accepted the event's batch, and rejects with `TELEMETRY_TRANSPORT_FAILED` when it is lost.
   */
  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> | void {
    const record = toOtlpRecord(envelope, emittedAtMs)
    if (this.#settings.loggerProvider !== undefined) return this.#handOver(envelope, record)
    return this.#take(envelope, record)
  }

  /** Sends what is buffered; resolves when all of it is delivered or has failed for good. */
  async flush(): Promise<void> {
    await this.#delivery?.flush()
  }

  /**
   * Flushes and lets go of the exporter. An application's `loggerProvider` is left alone.
   * @param deadline when it aborts, nothing keeps the process alive any longer; what is outstanding goes on while it lives
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    this.#closed = true
    await this.#delivery?.close(deadline)
  }

  #handOver(envelope: TelemetryEnvelope, record: OtlpRecord): void {
    const attributes = writeOtlpAttributes(envelope, record, {})
    try {
      this.#logger?.emit({ ...record, attributes })
    } catch (cause) {
      throw notTaken('the loggerProvider threw', cause)
    }
  }

  #take(envelope: TelemetryEnvelope, sent: OtlpRecord): Promise<void> {
    if (this.#logger === undefined || this.#closed) {
      return Promise.reject(
        notTaken(this.#closed ? 'the transport is shut down' : 'the transport is not initialised'),
      )
    }
    const arriving: ArrivingEvent = { envelope, sent }
    this.#arriving = arriving
    try {
      this.#logger.emit(sent)
    } catch (cause) {
      return arriving.taken ?? Promise.reject(notTaken('the OpenTelemetry SDK threw', cause))
    } finally {
      this.#arriving = undefined
    }
    return arriving.taken ?? Promise.reject(notTaken('the OpenTelemetry SDK made no record of it'))
  }

  /**
   * Attributes are written here, into the SDK's record, and not given to `emit`: it would copy them,
   * drop those beyond 128, and drop a map that has a key `constructor`.
   */
  #processor(delivery: OtlpDelivery, weigh: Weigh): LogRecordProcessor {
    return {
      onEmit: (record: SdkLogRecord) => {
        const arriving = this.#arriving
        if (arriving === undefined) return
        const { envelope, sent } = arriving
        const attributes = writeOtlpAttributes(envelope, sent, record.attributes as OtlpAttributes)
        arriving.taken = delivery.add(record, weigh(sent, attributes))
        this.#arriving = undefined
      },
      forceFlush: () => delivery.flush(),
      shutdown: () => delivery.close(),
    }
  }
}

/** The bytes of a resource in a request, or more. */
function bytesOf(resource: Resource): number {
  return 2 * Buffer.byteLength(JSON.stringify(resource.attributes))
}

function notTaken(reason: string, cause?: unknown): KitTelemetryError {
  const options = cause === undefined ? {} : { cause }
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport "otlp": ${reason}; 1 event is lost`,
    options,
  )
}

function describeService(
  meta: TelemetryTransportMeta,
  resourceFromAttributes: (attributes: Record<string, string>) => Resource,
): Resource {
  return resourceFromAttributes({
    'service.name': meta.service,
    'deployment.environment.name': meta.environment,
    ...(meta.version === undefined ? {} : { 'service.version': meta.version }),
  })
}

function exporterMaker(
  Exporter: typeof OTLPLogExporter,
  settings: OtlpSettings,
): (wishes: ExporterWishes) => InstanceType<typeof OTLPLogExporter> {
  type Config = NonNullable<ConstructorParameters<typeof OTLPLogExporter>[0]>
  return ({ headers, makeAgent }) =>
    new Exporter({
      url: settings.url,
      headers,
      httpAgentOptions: makeAgent,
      timeoutMillis: settings.timeout,
      // An enum of a package that is no peer of ours; its values are these words.
      compression: settings.compression as NonNullable<Config['compression']>,
    })
}

/**
 * Sets the mark by which instrumentations know not to trace a request. Starting from the root
 * context, a batch does not keep the request alive in which its first event was emitted.
 */
function untracedBy(api: typeof Api): (run: () => void) => void {
  const suppressTracing = api.createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
  const untraced = api.ROOT_CONTEXT.setValue(suppressTracing, true)
  return (run) => api.context.with(untraced, run)
}

async function loadOpenTelemetry(encoding: OtlpSettings['encoding']) {
  const exporterName = `@opentelemetry/exporter-logs-otlp-${encoding === 'json' ? 'http' : 'proto'}`
  try {
    const [api, sdk, resources, exporter] = await Promise.all([
      import('@opentelemetry/api'),
      import('@opentelemetry/sdk-logs'),
      import('@opentelemetry/resources'),
      encoding === 'json'
        ? import('@opentelemetry/exporter-logs-otlp-http')
        : import('@opentelemetry/exporter-logs-otlp-proto'),
    ])
    return { api, sdk, resources, exporter }
  } catch (cause) {
    const packages = [
      '@opentelemetry/api',
      '@opentelemetry/sdk-logs',
      '@opentelemetry/resources',
      exporterName,
    ]
    const missing = ['ERR_MODULE_NOT_FOUND', 'MODULE_NOT_FOUND'].includes(
      (cause as NodeJS.ErrnoException | undefined)?.code ?? '',
    )
    throw new KitTelemetryError(
      'TELEMETRY_TRANSPORT_INIT_FAILED',
      `transport "otlp": the OpenTelemetry packages ${missing ? 'are not installed' : 'could not be loaded'}; run npm install ${packages.join(' ')}`,
      { cause, details: { packages } },
    )
  }
}
