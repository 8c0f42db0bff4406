import { isObject } from '../../base/options/value-kinds.ts'
import type { TelemetryConfig } from '../config.ts'
import { auditObstacle, DEFAULT_MAX_PENDING_BYTES, type TelemetryTransport } from '../delivery/transport.ts'
import { telemetryOptions } from '../options.ts'
import { auditKey } from './audit-line.ts'

const { checkTexts, checkWholeNumber, copyOptions, invalidKind, missingOption, unusableOption } =
  telemetryOptions

/** The options of `KitTelemetry.withAudit()`. */
export interface TelemetryAuditOptions {
  /**
   * The transport that receives the audited events, and no others. It must write each event as one JSON object. If it fails, an
   * event is sent again until it is delivered, and later events wait.
   */
  readonly transport: TelemetryTransport
  /**
   * Patterns of event names, such as `kit.mcp.auth.*`. `*` matches any number of characters, including dots, and `?` matches one
   * character.
   */
  readonly names: readonly string[]
  /** The key of the MACs: at least 32 random bytes, as a string in UTF-8 or as bytes. */
  readonly secret: string | Uint8Array
}

/** The audit of a manager. The key is not enumerable. */
export type AuditConfig = NonNullable<TelemetryConfig['audit']>

const DEFAULT_MAX_PENDING = 10_000

/** Copies and checks the options. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if one is invalid. */
export function readAuditOptions(options: TelemetryAuditOptions): AuditConfig {
  const { transport, names, secret } = copyOptions<TelemetryAuditOptions>('withAudit', options, {
    transport: checkTransport,
    names: checkNames,
    secret: () => {},
  })
  if (transport === undefined) throw missing('transport', 'the transport that writes the audit log')
  if (names === undefined) throw missing('names', "patterns of event names, such as ['kit.mcp.auth.*']")
  if (secret === undefined || secret === null) throw missing('secret', 'at least 32 random bytes')
  const key = auditKey('withAudit', 'withAudit({ secret })', secret)
  const { maxPending = DEFAULT_MAX_PENDING, maxPendingBytes = DEFAULT_MAX_PENDING_BYTES } = transport
  return Object.freeze(
    Object.defineProperty({ transport, names, maxPending, maxPendingBytes }, 'key', { value: key }),
  ) as AuditConfig
}

/** @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the audit transport is also an ordinary transport. */
export function checkOwnTransport(
  audit: AuditConfig | undefined,
  transports: readonly { readonly transport: TelemetryTransport }[],
): void {
  if (audit === undefined || transports.every(({ transport }) => transport !== audit.transport)) return
  throw unusableOption(
    'withAudit({ transport })',
    'cannot be used together with addTransport() for the same adapter',
    'Create another adapter for the audit log',
  )
}

function missing(option: keyof TelemetryAuditOptions, value: string): Error {
  return missingOption(`withAudit({ ${option} })`, `set it to ${value}`)
}

function checkTransport(option: string, value: unknown): void {
  const given = value as Partial<TelemetryTransport>
  if (
    !isObject(value) ||
    typeof given.type !== 'string' ||
    given.type === '' ||
    typeof given.handle !== 'function'
  )
    throw invalidKind(option, 'must be a transport, which has a string type and a function handle', value)
  for (const method of ['init', 'flush', 'shutdown'] as const) {
    if (given[method] !== undefined && typeof given[method] !== 'function')
      throw invalidKind(`${method} of ${option}`, 'must be a function if it is set', given[method])
  }
  for (const limit of ['maxPending', 'maxPendingBytes'] as const) {
    if (given[limit] !== undefined)
      checkWholeNumber(`${limit} of ${option}`, given[limit], 1, Number.MAX_SAFE_INTEGER)
  }
  const obstacle = (value as { readonly [auditObstacle]?: string })[auditObstacle]
  if (obstacle !== undefined)
    throw unusableOption(option, 'must not be a transport that leaves out parts of events', obstacle)
}

function checkNames(option: string, value: unknown): void {
  if (checkTexts(option, value).length > 0) return
  throw unusableOption(option, 'must not be empty', "Add a pattern of event names, such as 'kit.mcp.auth.*'")
}
