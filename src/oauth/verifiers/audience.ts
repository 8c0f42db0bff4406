import type { OptionChecks } from '../../options/option-checks.ts'

export interface AudienceOptions {
  readonly audience?: string | readonly string[] | undefined
  readonly resource?: string | undefined
}

/** What `aud` must hold one of, by `audience` or `resource`. @throws {KitMcpConfigError} for neither, or both. */
export function checkAudiences(
  { checkTexts, invalidOption, missingOption }: OptionChecks,
  { audience, resource }: AudienceOptions,
): readonly string[] {
  if (audience !== undefined && resource !== undefined) {
    throw invalidOption('resource', 'cannot be given together with audience: both say what aud must be')
  }
  const option = resource === undefined ? 'audience' : 'resource'
  const given = audience ?? resource
  if (given === undefined || given === null || given.length === 0) {
    throw missingOption(
      'audience',
      'give what aud must be, usually the URL of this MCP server: without it tokens for others would pass',
    )
  }
  return checkTexts(option, typeof given === 'string' ? [given] : given)
}

/** Whether `aud` is, or holds, one of `audiences`; compared character by character. */
export function isFor(aud: unknown, audiences: readonly string[]): boolean {
  return Array.isArray(aud) ? aud.some((one) => audiences.includes(one)) : audiences.includes(aud as string)
}

/** The audiences that are resources (RFC 8707): http(s) URLs. */
export function resourcesAmong(audiences: readonly string[]): readonly string[] {
  return audiences.filter((audience) => /^https?:\/\//.test(audience) && URL.canParse(audience))
}

/**
 * Which of `resources` a token with this `aud` is for. It may be for several; what counts is whether it is for the one
 * that asks.
 */
export function resourceIn(
  aud: unknown,
  resources: readonly string[],
  asking: string | undefined,
): string | undefined {
  const named = Array.isArray(aud) ? aud : [aud]
  if (asking !== undefined && resources.includes(asking) && named.includes(asking)) return asking
  return named.find((one) => resources.includes(one))
}
