import type * as Api from '@opentelemetry/api'
import type { OTLPLogExporter } from '@opentelemetry/exporter-logs-otlp-http'
import type * as Resources from '@opentelemetry/resources'
import { peerProblem } from '../../../base/peer-problem.ts'
import { utf8Length } from '../../../base/runtime.ts'
import { VERSION } from '../../../base/version.ts'
import {
  type EventOutcome,
  eventTaker,
  type InternalMeta,
  type NamedOrigin,
  namedOrigin,
  type RedactIds,
  redactIds,
  type TakeEvent,
  type TelemetryTransport,
  type TelemetryTransportMeta,
} from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'
import { KitTelemetryError } from '../../errors.ts'
import { promisedOutcome } from '../queue/batch.ts'
import { BatchQueue } from '../queue/batch-queue.ts'
import { OtlpConnection } from './otlp-connection.ts'
import { type ExporterHooks, OtlpExportSlot, type OtlpExportSlotOptions } from './otlp-export-slot.ts'
import {
  type OtlpResourceAttributes,
  type OtlpSettings,
  type OtlpTransportOptions,
  readOtlpOptions,
} from './otlp-options.ts'
import {
  type OtlpEvent,
  type OtlpRecord,
  OtlpRecords,
  SCOPE_NAME,
  toOtlpRecord,
  writeOtlpAttributes,
} from './otlp-record.ts'
import { otlpWeight } from './otlp-weight.ts'

export type {
  OtlpLoggerProvider,
  OtlpResourceAttributes,
  OtlpResourceValue,
  OtlpTransportOptions,
} from './otlp-options.ts'
export type { OtlpAttributes, OtlpRecord, OtlpValue } from './otlp-record.ts'

/** The maximum size of a request that proxies accept by default (nginx), in bytes. */
const MAX_REQUEST_BYTES = 2 ** 20

/** The bytes of a request in addition to its records and its resource, or a few more. */
const REQUEST_BYTES = 1_024

const MAX_BATCH = 512
const BATCH_DELAY_MS = 1_000
const LANES = 4
const BACK_OFF = { firstMs: 500, maxMs: 30_000, minShare: 0.5 }

interface RecordLogger {
  emit(record: OtlpRecord): void
}

/** The parts that `init` creates. Up to four batches are under way at the same time. */
interface OtlpDelivery {
  readonly records: OtlpRecords
  readonly queue: BatchQueue<OtlpEvent>
  readonly lanes: readonly OtlpExportSlot[]
  readonly connection: OtlpConnection
}

/**
 * Sends events to an OpenTelemetry collector as log records over OTLP/HTTP, with the OpenTelemetry logs SDK (2.x or 3.x). Its
 * packages are optional peers, which `init` loads: `@opentelemetry/api`, `@opentelemetry/sdk-logs`,
 * `@opentelemetry/resources`, and `@opentelemetry/exporter-logs-otlp-http` or, for protobuf, `-proto`.
 *
 * Events are delivered at least once, because an attempt that timed out may have reached the collector. If a collector
 * accepts only a part of a batch, the number of events that it rejected counts as failed. It does not say which events it
 * rejected. The reason is in `lastError` of `stats()`, and in OpenTelemetry's `diag` logger.
 *
 * @example
 * ```ts
 * import { KitTelemetry, OtlpTransportAdapter } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(OtlpTransportAdapter.create({ url: 'http://localhost:4318' }))
 * ```
 * @see docs/reference/otlp.md
 */
export class OtlpTransportAdapter implements TelemetryTransport {
  readonly type = 'otlp'
  readonly maxPending: number
  readonly maxPendingBytes: number
  readonly #settings: OtlpSettings
  /** The logger of the application. */
  readonly #logger: RecordLogger | undefined
  #delivery: OtlpDelivery | undefined
  #closed = false
  #redactIds: RedactIds = (envelope) => envelope

  private constructor(settings: OtlpSettings) {
    this.#settings = settings
    this.maxPending = settings.maxPending
    this.maxPendingBytes = settings.maxPendingBytes
    this.#logger = settings.loggerProvider?.getLogger(SCOPE_NAME, VERSION)
  }

  /**
   * Creates the transport.
   * @param options the collector, or a logger provider.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid. The message contains neither the URL
   * nor the value of a header.
   */
  static create(options: OtlpTransportOptions): OtlpTransportAdapter {
    return new OtlpTransportAdapter(readOtlpOptions(options))
  }

  /**
   * Loads OpenTelemetry, unless there is a `loggerProvider`.
   * @param meta the metadata of the manager.
   * @throws {KitTelemetryError} `TELEMETRY_TRANSPORT_INIT_FAILED` if a package is missing. The message names it.
   */
  async init(meta: TelemetryTransportMeta): Promise<void> {
    this.#redactIds = (meta as InternalMeta)[redactIds] ?? this.#redactIds
    if (this.#logger !== undefined || this.#delivery !== undefined) return
    const { api, sdk, resources, exporter } = await loadOpenTelemetry(this.#settings.encoding)
    const resource = describeResource(meta, this.#settings.resource, resources)
    const { url, headers, timeout: timeoutMs } = this.#settings
    const options: OtlpExportSlotOptions = {
      makeExporter: exporterMaker(exporter.OTLPLogExporter, this.#settings),
      headers,
      url,
      untraced: untracedBy(api),
      diagnose: (message) => api.diag.warn(`mcp-gatekit: ${message}`),
      timeoutMs,
    }
    const maxWeight = MAX_REQUEST_BYTES - REQUEST_BYTES - bytesOf(resource)
    this.#delivery = deliveryOf(new OtlpRecords(api, sdk, resource), options, maxWeight, this.#settings)
  }

  /**
   * Sends an event. Its record refers to the active span.
   * @param envelope the event.
   * @param emittedAtMs when the event was emitted, in milliseconds since 1970, if it had to wait for `init` or for the end of
   * its session.
   * @returns `undefined` with a `loggerProvider`. Otherwise a promise that resolves when the collector has accepted the batch
   * of the event, and rejects with `TELEMETRY_TRANSPORT_FAILED` if the event is lost.
   */
  handle(envelope: TelemetryEnvelope, emittedAtMs?: number): Promise<void> | void {
    if (this.#logger !== undefined) return this.#handOver(this.#logger, envelope, emittedAtMs)
    return promisedOutcome((outcome) => this.#take(envelope, emittedAtMs, outcome))
  }

  /** Returns a function that sends an event as `handle` does, unless `handle` was replaced. @internal */
  [eventTaker](handle: TelemetryTransport['handle']): TakeEvent | undefined {
    // A Proxy of the transport does not have its private members.
    if (handle !== OtlpTransportAdapter.prototype.handle || !(#logger in this)) return undefined
    if (this.#logger !== undefined) return undefined
    return (envelope, emittedAtMs, outcome) => this.#take(envelope, emittedAtMs, outcome)
  }

  /**
   * Sends buffered events. Resolves when they are delivered or have failed.
   * @param deadline when it aborts, the promise resolves.
   */
  async flush(deadline?: AbortSignal): Promise<void> {
    await this.#delivery?.queue.flush(deadline)
  }

  /**
   * Flushes and closes the exporter, but not the `loggerProvider` of the application.
   * @param deadline when it aborts, the transport no longer keeps the process alive. Pending requests go on until it exits.
   */
  async shutdown(deadline?: AbortSignal): Promise<void> {
    this.#closed = true
    if (this.#delivery === undefined) return
    const { queue, lanes, connection } = this.#delivery
    const release = () => {
      for (const lane of lanes) lane.release()
    }
    if (deadline?.aborted === true) release()
    else deadline?.addEventListener('abort', release, { once: true })
    await queue.close(deadline)
    void queue.settled().then(() => {
      for (const lane of lanes) lane.close()
      connection.close()
    })
  }

  #handOver(logger: RecordLogger, envelope: TelemetryEnvelope, emittedAtMs: number | undefined): void {
    const record = toOtlpRecord(envelope, emittedAtMs)
    const attributes = writeOtlpAttributes(this.#redactIds(envelope), {})
    try {
      logger.emit({ ...record, attributes })
    } catch (cause) {
      throw notTaken('the loggerProvider threw', cause)
    }
  }

  /** @throws {KitTelemetryError} if the event is lost. It has not called `outcome` then. */
  #take(envelope: TelemetryEnvelope, emittedAtMs = Date.now(), outcome: EventOutcome): void {
    if (this.#delivery === undefined || this.#closed) {
      throw notTaken(this.#closed ? 'the transport is shut down' : 'the transport is not initialized')
    }
    try {
      const { queue, records } = this.#delivery
      const event = { envelope: this.#redactIds(envelope), emittedAtMs, span: records.activeSpan() }
      queue.addFor(outcome, event, otlpWeight(event.envelope))
    } catch (cause) {
      throw notTaken('the event cannot be read', cause)
    }
  }
}

/**
 * Collects events into batches, creates their records, and sends each batch until it is delivered, rejected, or its retry
 * budget is spent. A batch is sent when it has 512 events or the maximum size, when its first event is one second old, or on
 * `flush`. The timers do not keep the process alive.
 */
function deliveryOf(
  records: OtlpRecords,
  options: OtlpExportSlotOptions,
  maxWeight: number,
  { agent, retryBudgetMs }: OtlpSettings,
): OtlpDelivery {
  const connection = new OtlpConnection(agent)
  const lanes = Array.from({ length: LANES }, () => new OtlpExportSlot(options, connection))
  const idle = [...lanes]
  const queue = new BatchQueue<OtlpEvent>({
    type: 'otlp',
    lanes: LANES,
    maxItems: MAX_BATCH,
    maxWeight,
    delayMs: BATCH_DELAY_MS,
    backOff: BACK_OFF,
    retryBudgetMs,
    maxFlushingWaitMs: options.timeoutMs,
    sendsAfterDeadline: true,
    send: async (events) => {
      // The queue uses no more lanes than there are.
      const lane = idle.pop() as OtlpExportSlot
      try {
        return await lane.export(events.map((event) => records.create(event)))
      } catch (cause) {
        return { result: 'split', failure: { reason: 'the OpenTelemetry SDK threw', cause } }
      } finally {
        idle.push(lane)
      }
    },
  })
  return { records, queue, lanes, connection }
}

/** Returns the bytes of a resource in a request, or a few more. */
function bytesOf(resource: Resources.Resource): number {
  return 2 * utf8Length(JSON.stringify(resource.attributes))
}

function notTaken(reason: string, cause?: unknown): KitTelemetryError {
  const options = cause === undefined ? {} : { cause }
  return new KitTelemetryError(
    'TELEMETRY_TRANSPORT_FAILED',
    `transport "otlp": ${reason}; 1 event is lost`,
    options,
  )
}

/** The id of this process in the resource. */
let instanceId: string | undefined

/** Returns the resource. Attributes of a later source override those of an earlier one. */
function describeResource(
  meta: TelemetryTransportMeta,
  given: OtlpResourceAttributes,
  { defaultResource, detectResources, envDetector, resourceFromAttributes }: typeof Resources,
): Resources.Resource {
  instanceId ??= crypto.randomUUID()
  const named = (meta as InternalMeta)[namedOrigin] ?? meta
  return defaultResource()
    .merge(resourceFromAttributes({ ...serviceAttributes(meta), 'service.instance.id': instanceId }))
    .merge(detectResources({ detectors: [envDetector] }))
    .merge(resourceFromAttributes(given as Api.Attributes))
    .merge(resourceFromAttributes(serviceAttributes(named)))
}

function serviceAttributes({ service, environment, version }: NamedOrigin): Record<string, string> {
  return {
    ...(service !== undefined && { 'service.name': service }),
    ...(environment !== undefined && { 'deployment.environment.name': environment }),
    ...(version !== undefined && { 'service.version': version }),
  }
}

function exporterMaker(
  Exporter: typeof OTLPLogExporter,
  settings: OtlpSettings,
): (hooks: ExporterHooks) => InstanceType<typeof OTLPLogExporter> {
  type Config = NonNullable<ConstructorParameters<typeof OTLPLogExporter>[0]>
  return ({ headers, makeAgent }) =>
    new Exporter({
      url: settings.url,
      headers,
      httpAgentOptions: makeAgent,
      timeoutMillis: settings.timeout,
      // The values of an enum of a package that is not a peer of this one.
      compression: settings.compression as NonNullable<Config['compression']>,
    })
}

/**
 * Returns a function that runs an export without tracing. It starts from the root context, so that a batch does not keep the
 * request in memory in which its first event was emitted.
 */
function untracedBy(api: typeof Api): (run: () => void) => void {
  const suppressTracing = api.createContextKey('OpenTelemetry SDK Context Key SUPPRESS_TRACING')
  const untraced = api.ROOT_CONTEXT.setValue(suppressTracing, true)
  return (run) => api.context.with(untraced, run)
}

async function loadOpenTelemetry(encoding: OtlpSettings['encoding']) {
  const exporterName = `@opentelemetry/exporter-logs-otlp-${encoding === 'json' ? 'http' : 'proto'}`
  try {
    const api = await import('@opentelemetry/api')
    const sdk = await import('@opentelemetry/sdk-logs')
    const resources = await import('@opentelemetry/resources')
    const exporter =
      encoding === 'json'
        ? await import('@opentelemetry/exporter-logs-otlp-http')
        : await import('@opentelemetry/exporter-logs-otlp-proto')
    return { api, sdk, resources, exporter }
  } catch (cause) {
    const packages = [
      '@opentelemetry/api',
      '@opentelemetry/sdk-logs',
      '@opentelemetry/resources',
      exporterName,
    ]
    const { reason, fix } = peerProblem(cause, `npm install ${packages.join(' ')}`)
    throw new KitTelemetryError(
      'TELEMETRY_TRANSPORT_INIT_FAILED',
      `transport "otlp": the OpenTelemetry packages ${reason}. ${fix}`,
      { cause, details: { packages } },
    )
  }
}
