import type { GrantScopesInput, ResolvedFacadeOptions } from '../options.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'

/** The decision of the application about a user. */
export type UserAccess =
  | { readonly isAllowed: true; readonly scopes: readonly string[] }
  | { readonly isAllowed: false; readonly reason: string | undefined }

/**
 * Asks `allow` and `grantScopes` about a user.
 * @throws {TemporarilyUnavailableError} if one of them fails, or returns scopes that are not an array of strings.
 */
export async function userAccess(
  { allow, grantScopes }: Pick<ResolvedFacadeOptions, 'allow' | 'grantScopes'>,
  { claims, provider, requested }: GrantScopesInput,
): Promise<UserAccess> {
  try {
    const allowed: unknown = await allow({ claims, provider })
    if (allowed !== true) {
      const { deny } = Object(allowed) as { deny?: unknown }
      return { isAllowed: false, reason: typeof deny === 'string' ? deny : undefined }
    }
    const granted: unknown = await grantScopes({ claims, provider, requested })
    // A string would grant every scope that it contains.
    if (!Array.isArray(granted) || !granted.every((scope) => typeof scope === 'string'))
      throw new Error('grantScopes must return an array of strings')
    return { isAllowed: true, scopes: requested.filter((scope) => granted.includes(scope)) }
  } catch {
    // The error may contain claims.
    throw new TemporarilyUnavailableError('The account could not be checked')
  }
}
