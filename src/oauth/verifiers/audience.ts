import type { OptionChecks } from '../../base/options/option-checks.ts'

/** The hint of the error for an audience that is missing. */
export const AUDIENCE_HINT =
  'set it to the expected aud, usually the URL of this MCP server; otherwise tokens issued for other services would be accepted'

/**
 * The audiences that `audience` or `resource` names. A token must name one of them.
 * @throws {KitMcpConfigError} for neither, or both.
 */
export function checkAudiences(
  { checkTexts, invalidOption, missingOption }: OptionChecks,
  audience: string | readonly string[] | undefined,
  resource: string | undefined,
): readonly string[] {
  const both = 'cannot be given together with audience. Remove one of them: both name the expected aud'
  if (audience !== undefined && resource !== undefined) throw invalidOption('resource', both)
  const option = resource === undefined ? 'audience' : 'resource'
  const value = audience ?? resource
  if (value === undefined || value === null || value.length === 0)
    throw missingOption('audience', AUDIENCE_HINT)
  return checkTexts(option, typeof value === 'string' ? [value] : value)
}

/**
 * The spellings of an audience that is only an origin: exactly the configured one, or both `https://host` and
 * `https://host/`, which are the same URI (RFC 3986 §6.2.3).
 */
export type AudienceSlash = 'exact' | 'optional'

/** Returns the audiences that a token may name: with `optional`, both spellings of those that are only an origin. */
export function acceptedAudiences(audiences: readonly string[], slash: AudienceSlash): readonly string[] {
  if (slash === 'exact') return audiences
  return [...new Set(audiences.flatMap((audience) => [audience, otherSpelling(audience) ?? audience]))]
}

/** Returns the other spelling of a resource that is only an origin. */
function otherSpelling(audience: string): string | undefined {
  if (resourcesAmong([audience]).length === 0) return undefined
  const hasSlash = audience.endsWith('/')
  const origin = hasSlash ? audience.slice(0, -1) : audience
  if (origin.toLowerCase() !== new URL(audience).origin) return undefined
  return hasSlash ? origin : `${origin}/`
}

/** Returns `true` if `aud` is, or contains, one of `audiences`. Strings are compared exactly. */
export function isFor(aud: unknown, audiences: readonly string[]): boolean {
  return Array.isArray(aud) ? aud.some((one) => audiences.includes(one)) : audiences.includes(aud as string)
}

/** Returns the audiences that are resources (RFC 8707): http(s) URLs. */
export function resourcesAmong(audiences: readonly string[]): readonly string[] {
  return audiences.filter((audience) => /^https?:\/\//.test(audience) && URL.canParse(audience))
}

/**
 * Returns the member of `resources` that a token with this `aud` was issued for. If there are several, the resource of the
 * calling gate is preferred, in the spelling of the gate.
 */
export function resourceIn(
  aud: unknown,
  resources: readonly string[],
  asking: string | undefined,
  slash: AudienceSlash = 'exact',
): string | undefined {
  const named = Array.isArray(aud) ? aud : [aud]
  if (asking !== undefined && resources.includes(asking)) {
    const other = slash === 'optional' ? otherSpelling(asking) : undefined
    if (named.includes(asking) || (other !== undefined && named.includes(other))) return asking
  }
  return named.find((one) => resources.includes(one))
}
