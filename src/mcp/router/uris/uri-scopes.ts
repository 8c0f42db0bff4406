import { unionOfScopes } from '../../../oauth/scope.ts'
import { canonicalUri, decodedOnce, MAX_URI_LENGTH, parsedUri } from './canonical-uri.ts'
import type { UriMatcher } from './uri-template.ts'

/** An operation that needs scopes. */
export interface Scoped {
  readonly scopes: readonly string[]
  /** `true` if a request without a token may use the operation. */
  readonly isPublic?: boolean
}

export interface ScopedTemplate extends Scoped {
  readonly matcher: Pick<UriMatcher, 'canonical' | 'covers'>
}

/** The resources that need scopes. */
export interface ScopedResources {
  /** The resources by canonical URI. */
  readonly resources: ReadonlyMap<string, Scoped>
  readonly templates: readonly ScopedTemplate[]
}

/**
 * Returns the scopes that reading `uri` needs: those of every resource and of every template that matches its canonical form,
 * or a URI that a handler might take that form for. A URI without a canonical form does not need scopes, because it is
 * rejected. A URI of more than `MAX_URI_LENGTH` characters needs the scopes of all resources.
 */
export function scopesOfUri({ resources, templates }: ScopedResources, uri: string): readonly string[] {
  const canonical = canonicalUri(uri)
  if (canonical === undefined) return []
  // The URI is too long to try all readings, so it may be any resource.
  if (canonical.length > MAX_URI_LENGTH)
    return unionOfScopes(...[...resources.values(), ...templates].map(({ scopes }) => scopes))
  const readings = readingsOf(canonical)
  const needed: (readonly string[])[] = []
  for (const reading of readings) {
    const { scopes } = resources.get(reading) ?? {}
    if (scopes !== undefined && scopes.length > 0) needed.push(scopes)
  }
  for (const { scopes, matcher } of templates) {
    if (scopes.length > 0 && readings.some((reading) => matcher.covers(reading))) needed.push(scopes)
  }
  return needed.length === 0 ? [] : unionOfScopes(...needed)
}

/**
 * Returns `true` if a request without a token may read `uri`. The handler that reads it must be public, and no handler that
 * its other readings name may need more:
 * - No resource and no template that matches any reading has scopes.
 * - No reading is the URI of a resource that is not public.
 * - A URI that only templates match is public only if all of them are public.
 */
export function isPublicUri({ resources, templates }: ScopedResources, uri: string): boolean {
  const canonical = canonicalUri(uri)
  if (canonical === undefined || canonical.length > MAX_URI_LENGTH) return false
  const readings = readingsOf(canonical)
  const named = readings.flatMap((reading) => resources.get(reading) ?? [])
  if (!named.every(isOpen)) return false
  const covering = templates.filter(({ matcher }) => readings.some((reading) => matcher.covers(reading)))
  if (resources.has(canonical)) return covering.every(({ scopes }) => scopes.length === 0)
  return covering.every(isOpen) && covering.some(({ matcher }) => matcher.covers(canonical))
}

/** Returns `true` for a public operation without scopes. */
export function isOpen({ isPublic, scopes }: Scoped): boolean {
  return isPublic === true && scopes.length === 0
}

/** Matches a URI with only one reading: an authority, and segments that are neither empty nor dot segments. */
const PLAIN =
  /^[a-z][a-z0-9+.-]*:\/\/[\w~!$&'()*+,;=:-][\w.~!$&'()*+,;=:-]*(?:\/[\w~!$&'()*+,;=:-][\w.~!$&'()*+,;=:-]*)*$/

/** The maximum number of times that a handler may decode a URI. */
const MAX_DECODINGS = 3

/**
 * Returns the URIs that a handler might take a canonical URI for, including the URI itself: decoded up to three times, without
 * credentials, fragment, and empty query, and with the path as a file system reads it.
 */
function readingsOf(canonical: string): readonly string[] {
  if (PLAIN.test(canonical)) return [canonical]
  const readings = new Set<string>()
  let uri = canonical
  for (let decodings = 0; ; decodings++) {
    const bare = withoutAdditions(uri)
    for (const reading of [uri, bare, withPlainPath(bare)]) {
      readings.add(reading)
      // A decoded URI is compared in encoded form too.
      const parsed = parsedUri(reading)
      if (parsed !== undefined) readings.add(parsed)
    }
    const decoded = decodedOnce(uri)
    if (decoded === uri || decodings === MAX_DECODINGS) return [...readings]
    uri = decoded
  }
}

/** Removes credentials, fragment, and an empty query. */
function withoutAdditions(uri: string): string {
  const [beforeFragment = ''] = uri.split('#', 1)
  const withoutQuery = beforeFragment.endsWith('?') ? beforeFragment.slice(0, -1) : beforeFragment
  return withoutQuery.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/?]*@/, '$1')
}

/** Removes empty and dotted segments, and reads a backslash as a slash. */
function withPlainPath(uri: string): string {
  const [, start, path = '', query = ''] = /^([a-z][a-z0-9+.-]*:\/\/)([^?]*)(.*)$/s.exec(uri) ?? []
  if (start === undefined) return uri
  const segments: string[] = []
  for (const segment of path.replaceAll('\\', '/').split('/')) {
    if (segment === '..') segments.pop()
    else if (segment !== '' && segment !== '.') segments.push(segment)
  }
  return start + segments.join('/') + query
}
