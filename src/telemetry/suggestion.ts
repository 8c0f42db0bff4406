import { nearestName } from '../options/nearest-name.ts'

/** ` (did you mean "x"?)` for the closest of `known`, or nothing when none is close. */
export function suggestion(given: string, known: Iterable<string>): string {
  const meant = nearestName(given, known)
  return meant === undefined ? '' : ` (did you mean ${JSON.stringify(meant)}?)`
}

/** `value` in an error message: quoted, escaped and short. */
export function quoted(value: unknown): string {
  if (typeof value === 'string') return JSON.stringify(value.length > 60 ? `${value.slice(0, 59)}…` : value)
  return value === null ? 'null' : Array.isArray(value) ? 'an array' : `a value of type ${typeof value}`
}
