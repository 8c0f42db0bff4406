import { CLIENT_NAMES } from '../../client-names.ts'
import { isRecord } from '../../options/value-kinds.ts'
import type { ObservedClient } from '../wire/request-telemetry.ts'

/** The gate observes clients too, and does not load the SDK. */
const CLIENT_INFO_META_KEY = 'io.modelcontextprotocol/clientInfo'

/** The label of a client that is not known, so that metrics have few values. */
const OTHER = '_OTHER'

/** Returns the names that metrics may have. @param further those of the option `knownClients` */
export function knownClientNames(further: readonly string[]): ReadonlySet<string> {
  return new Set([...Object.values(CLIENT_NAMES).flat(), ...further])
}

/**
 * Returns how a client calls itself in `initialize` (2025), or in `params._meta` of a request (2026-07-28). Returns undefined if
 * the message does not tell.
 * @param text removes secrets from a string, and shortens it. Returns undefined for other values.
 */
export function observedClient(
  message: unknown,
  known: ReadonlySet<string>,
  text: (value: unknown) => string | undefined,
): ObservedClient | undefined {
  const { method, params } = isRecord(message) ? message : {}
  const { clientInfo, _meta } = isRecord(params) ? params : {}
  const info =
    method === 'initialize' ? clientInfo : isRecord(_meta) ? _meta[CLIENT_INFO_META_KEY] : undefined
  if (!isRecord(info)) return undefined
  const { name, version } = info
  return { name: text(name), version: text(version), label: labelOf(name, known) }
}

function labelOf(name: unknown, known: ReadonlySet<string>): string | undefined {
  if (typeof name !== 'string') return undefined
  return known.has(name) ? name : OTHER
}
