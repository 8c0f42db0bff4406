import { isRecord } from '../../base/options/value-kinds.ts'

/**
 * Returns a JSON value as text in canonical form (RFC 8785): without spaces, and with the members of objects sorted by name. Equal
 * values have equal texts.
 */
export function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`
  // JSON.stringify would write numbers that are not finite as null.
  if (typeof value === 'number') return String(value)
  if (!isRecord(value)) return JSON.stringify(value)
  const members = Object.keys(value).sort()
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonicalJson(value[name])}`).join(',')}}`
}
