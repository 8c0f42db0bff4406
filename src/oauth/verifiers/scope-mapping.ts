import { grantedScopes } from '../scope.ts'

/** Returns the scopes of a token for its claims and the scopes that it has by itself. */
export type MapScopes<Claims> = (claims: Claims, scopes: readonly string[]) => readonly string[]

/**
 * Returns the scopes of a token.
 * @param given the scopes as the authorization server sent them
 * @throws {TypeError} if the result of `mapScopes` is not an array of strings, and what `mapScopes` throws.
 */
export function scopesOf<Claims>(
  claims: Claims,
  given: unknown,
  mapScopes: MapScopes<Claims> | undefined,
): readonly string[] {
  const granted = grantedScopes(given)
  if (mapScopes === undefined) return granted
  const mapped: unknown = mapScopes(claims, granted)
  // A promise is not a list. Its rejection must not become an unhandled one.
  if (mapped instanceof Promise) mapped.catch(() => undefined)
  if (!Array.isArray(mapped) || !mapped.every((scope) => typeof scope === 'string'))
    throw new TypeError('mapScopes must return an array of strings')
  return mapped
}
