import type { AllowInput, GrantScopesInput, ResolvedFacadeOptions } from '../options.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'

/** The decision of the application about a user. */
export type UserAccess =
  | { readonly isAllowed: true; readonly scopes: readonly string[] }
  | { readonly isAllowed: false; readonly reason: string | undefined }

/** The decision of `allow` about a user. */
export type UserAllowance =
  | { readonly isAllowed: true }
  | { readonly isAllowed: false; readonly reason: string | undefined }

/**
 * Asks `allow` and `grantScopes` about a user.
 * @throws {TemporarilyUnavailableError} if one of them fails, or returns scopes that are not an array of strings.
 */
export async function userAccess(
  { allow, grantScopes }: Pick<ResolvedFacadeOptions, 'allow' | 'grantScopes'>,
  { claims, provider, requested }: GrantScopesInput,
): Promise<UserAccess> {
  const allowance = await userAllowance({ allow }, { claims, provider })
  if (!allowance.isAllowed) return allowance
  try {
    const granted: unknown = await grantScopes({ claims, provider, requested })
    // A string would grant every scope that it contains.
    if (!Array.isArray(granted) || !granted.every((scope) => typeof scope === 'string'))
      throw new Error('grantScopes must return an array of strings')
    return { isAllowed: true, scopes: requested.filter((scope) => granted.includes(scope)) }
  } catch {
    // The error may contain claims.
    throw unchecked()
  }
}

/**
 * Asks `allow` about a user.
 * @throws {TemporarilyUnavailableError} if it fails.
 */
export async function userAllowance(
  { allow }: Pick<ResolvedFacadeOptions, 'allow'>,
  input: AllowInput,
): Promise<UserAllowance> {
  let allowed: unknown
  try {
    allowed = await allow(input)
  } catch {
    // The error may contain claims.
    throw unchecked()
  }
  if (allowed === true) return { isAllowed: true }
  const { deny } = Object(allowed) as { deny?: unknown }
  return { isAllowed: false, reason: typeof deny === 'string' ? deny : undefined }
}

function unchecked(): TemporarilyUnavailableError {
  return new TemporarilyUnavailableError('The account could not be checked')
}
