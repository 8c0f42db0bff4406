import { optional, type RulesFor } from '../../../options/option-rules.ts'
import { DEFAULT_MAX_PENDING_BYTES, type TelemetryTransport } from '../../delivery/transport.ts'
import { telemetryOptions } from '../../options.ts'
import { countFrom, readTransportOptions, timeoutMs } from '../transport-options.ts'
import { WorkerTransport } from './worker-transport.ts'

const { invalidKind, invalidOption, text, unusableOption } = telemetryOptions

/** The options of `workerTransport()`. */
export interface WorkerTransportOptions {
  /** The name of the transport in `stats()` and in reports. Defaults to `worker`. */
  readonly type?: string | undefined
  /**
   * The argument of the function that makes the transport. It is copied by the structured clone algorithm, so it must not
   * contain functions. Defaults to `undefined`.
   */
  readonly data?: unknown
  /** The maximum number of pending events, at least 1. Further events are dropped. Defaults to 10 000. */
  readonly maxPending?: number | undefined
  /** The maximum size of the pending events in memory, in bytes, at least 1. Further events are dropped. Defaults to 67 108 864. */
  readonly maxPendingBytes?: number | undefined
  /**
   * The number of further workers that get an event that has stopped a worker, before it fails. Defaults to 0.
   */
  readonly retries?: number | undefined
  /** The maximum time in which the worker must load the module and make the transport. Defaults to 10 000 ms. */
  readonly startTimeout?: number | undefined
}

const RULES = {
  type: optional(text, 'worker'),
  data: copyData,
  maxPending: optional(countFrom(1), 10_000),
  maxPendingBytes: optional(countFrom(1), DEFAULT_MAX_PENDING_BYTES),
  retries: optional(countFrom(0), 0),
  startTimeout: optional(timeoutMs, 10_000),
} satisfies RulesFor<WorkerTransportOptions>

/**
 * Runs a transport in a worker thread, so that its work does not delay the application. The worker gets a copy of each event,
 * and reports the outcome, so `stats()` is as exact as for a transport without a worker.
 *
 * If the worker stops, another one starts when there are events for it, after a pause that doubles from 250 ms to 30 s. Only
 * the event that stops workers fails. If several were being handled, each of them is sent again alone, so that some are
 * delivered twice. If the first worker cannot make the transport, the transport is disabled. The worker does not keep the process alive, so await `shutdown()` of the manager.
 * @param moduleUrl the `file:` or `data:` URL of a module. Its default export, or its export `transport`, is a function that
 * receives `data` and returns a transport or a promise of one.
 * @param options the argument of that function, and limits.
 * @returns the transport.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an argument is invalid.
 *
 * @example
 * ```ts
 * import { KitTelemetry } from 'mcp-gatekit/telemetry'
 * import { workerTransport } from 'mcp-gatekit/telemetry/worker'
 *
 * const telemetry = KitTelemetry.create()
 *   .addTransport(workerTransport(new URL('./archive.js', import.meta.url), { data: { folder: '/var/log/shop' } }))
 *   .build()
 * ```
 * @see docs/reference/transports.md
 */
export function workerTransport(
  moduleUrl: URL | string,
  options: WorkerTransportOptions = {},
): TelemetryTransport {
  const read = readTransportOptions('workerTransport', options, RULES)
  return new WorkerTransport({ moduleUrl: readModuleUrl(moduleUrl), ...read })
}

function copyData(option: string, value: unknown): unknown {
  try {
    return structuredClone(value)
  } catch {
    throw unusableOption(
      option,
      'must not contain values that cannot be copied to a worker, such as functions',
      'Create them in the worker.',
    )
  }
}

function readModuleUrl(value: unknown): string {
  const option = 'the first argument of workerTransport()'
  const text = value instanceof URL ? value.href : value
  const fix = "Use new URL('./transport.js', import.meta.url)."
  if (typeof text !== 'string') throw invalidKind(option, 'must be the URL of a module', value, fix)
  if (!URL.canParse(text) || !['file:', 'data:'].includes(new URL(text).protocol))
    throw invalidOption(option, 'must be a file: or data: URL', text, fix)
  return text
}
