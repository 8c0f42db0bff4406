import { memberOf } from '../../options/describe-value.ts'

/** Returns `true` if the claims have all of these names. `null` and the empty string count as absent. */
export function hasClaims(claims: object, names: readonly string[]): boolean {
  return names.every((name) => Object.hasOwn(claims, name) && (memberOf(claims, name) ?? '') !== '')
}
