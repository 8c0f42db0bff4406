import { describeValue, quotedName } from '../base/options/describe-value.ts'
import type { TransportEntry } from './delivery/channel.ts'
import { DEFAULT_MAX_PENDING_BYTES, type TelemetryTransport } from './delivery/transport.ts'
import { LEVEL_PRIORITY, type TelemetryLevel } from './levels.ts'
import { errorWithHelp, telemetryOptions } from './options.ts'

const { checkOneOf, checkWholeNumber, copyOptions } = telemetryOptions

const DEFAULT_LIMITS = { maxPending: 10_000, maxPendingBytes: DEFAULT_MAX_PENDING_BYTES }

/** The options of `KitTelemetry.addTransport()`. */
export interface TelemetryTransportOptions {
  /**
   * The maximum number of pending events of the transport, at least 1. Further events are dropped. Defaults to the
   * `maxPending` of the adapter, or to 10 000.
   */
  readonly maxPending?: number | undefined
  /**
   * The maximum size of the pending events of the transport in memory, in bytes, at least 1. Further events are dropped.
   * Defaults to the `maxPendingBytes` of the adapter, or to 64 MiB.
   */
  readonly maxPendingBytes?: number | undefined
  /**
   * The minimum level. The transport does not receive events below it, which count as delivered and as skipped. A `minLevel` of
   * the adapter applies in addition. Defaults to `debug`.
   */
  readonly minLevel?: TelemetryLevel | undefined
}

/**
 * Returns the transport of a manager with its limits.
 * @throws {KitTelemetryError} `TELEMETRY_INVALID_TRANSPORT` or `TELEMETRY_CONFIGURATION_INVALID`.
 */
export function addedTransport(
  adapter: TelemetryTransport,
  options: TelemetryTransportOptions,
): TransportEntry {
  checkTransport(adapter)
  const copy = copyOptions<TelemetryTransportOptions>('addTransport', options, {
    maxPending: checkLimit,
    maxPendingBytes: checkLimit,
    minLevel: (option, value) => checkOneOf(option, value, Object.keys(LEVEL_PRIORITY)),
  })
  const limits = { ...DEFAULT_LIMITS }
  for (const limit of ['maxPending', 'maxPendingBytes'] as const) {
    if (adapter[limit] !== undefined)
      checkLimit(`addTransport(), ${limit} of transport ${quotedName(adapter.type)},`, adapter[limit])
    limits[limit] = copy[limit] ?? adapter[limit] ?? limits[limit]
  }
  const lowest = copy.minLevel === undefined ? {} : { minLevel: copy.minLevel }
  return Object.freeze({ type: adapter.type, transport: adapter, ...limits, ...lowest })
}

function checkTransport(adapter: TelemetryTransport): void {
  const given: Partial<TelemetryTransport> | null | undefined = adapter
  if (typeof given?.type !== 'string' || given.type === '' || typeof given.handle !== 'function') {
    throw errorWithHelp(
      'TELEMETRY_INVALID_TRANSPORT',
      `the adapter of addTransport() must have a string type and a function handle; received ${describeValue(adapter)}`,
    )
  }
  for (const method of ['init', 'flush', 'shutdown'] as const) {
    if (given[method] !== undefined && typeof given[method] !== 'function') {
      throw errorWithHelp(
        'TELEMETRY_INVALID_TRANSPORT',
        `${method} of transport ${quotedName(given.type)} must be a function if it is set; received ${describeValue(given[method])}`,
      )
    }
  }
}

function checkLimit(option: string, value: unknown): void {
  checkWholeNumber(option, value, 1, Number.MAX_SAFE_INTEGER)
}
