import { nearestName } from '../nearest-name.ts'
import { isQuotable } from './challenge.ts'
import { KitMcpConfigError } from './errors.ts'
import { isScopeToken } from './scope.ts'

/** An object written as options: not null, not an array, not a function. */
export function isOptionsObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function missingOption(option: string, mend: string): KitMcpConfigError {
  return new KitMcpConfigError('MCP_CONFIG_MISSING_OPTION', option, `${option} is missing: ${mend}`)
}

export function invalidOption(option: string, expected: string): KitMcpConfigError {
  return new KitMcpConfigError('MCP_CONFIG_INVALID_OPTION', option, `${option} ${expected}`)
}

/** Refuses options that do not exist, naming the one that was probably meant. */
export function checkKnownOptions(owner: string, given: object, known: readonly string[]): void {
  for (const option of Object.keys(given)) {
    if (known.includes(option)) continue
    const meant = nearestName(option, known)
    throw new KitMcpConfigError(
      'MCP_CONFIG_UNKNOWN_OPTION',
      option,
      `${owner} has no option '${option}'.${meant === undefined ? '' : ` Did you mean '${meant}'?`} Known are: ${known.join(', ')}.`,
    )
  }
}

/** `localhost` and its subdomains, 127.0.0.0/8 and `[::1]`: names that never leave the machine. */
export function isLoopbackHostname(hostname: string): boolean {
  const name = hostname.toLowerCase()
  return (
    name === 'localhost' ||
    name.endsWith('.localhost') ||
    name === '[::1]' ||
    /^127(?:\.\d{1,3}){3}$/.test(name)
  )
}

export interface UrlRules {
  /** Allows http for hosts that are not loopback. */
  readonly allowInsecureHttp: boolean
}

/** A URL that tokens may depend on: absolute, https (http only for loopback), no credentials, no fragment. */
export function checkUrl(option: string, value: unknown, { allowInsecureHttp }: UrlRules): URL {
  if (typeof value !== 'string' || !URL.canParse(value)) {
    throw invalidOption(option, `must be an absolute URL such as 'https://auth.example.com'`)
  }
  const url = new URL(value)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw invalidOption(option, 'must be an https URL')
  }
  if (url.protocol === 'http:' && !allowInsecureHttp && !isLoopbackHostname(url.hostname)) {
    throw invalidOption(
      option,
      'must be an https URL: http is accepted for loopback hosts only, or with allowInsecureHttp: true',
    )
  }
  if (url.username !== '' || url.password !== '') throw invalidOption(option, 'must not carry credentials')
  if (value.includes('#')) throw invalidOption(option, 'must not carry a fragment')
  if (!isQuotable(value) || value.trim() !== value) {
    throw invalidOption(option, 'must be written in ASCII, without spaces around it or control characters')
  }
  return url
}

/** A path as it appears in a request: a leading slash, no query, no fragment, nothing to normalise. */
export function checkPath(option: string, value: unknown): string {
  if (typeof value !== 'string' || !value.startsWith('/') || value.startsWith('//')) {
    throw invalidOption(
      option,
      `must be a path with one leading slash, such as '/.well-known/oauth-protected-resource'`,
    )
  }
  if (new URL(value, 'http://localhost').pathname !== value || (value.length > 1 && value.endsWith('/'))) {
    throw invalidOption(
      option,
      'must be a plain path: no query, fragment, spaces, dot segments or trailing slash',
    )
  }
  return value
}

/** A list of scopes (RFC 6749 §3.3), each once. */
export function checkScopes(option: string, value: unknown): readonly string[] {
  if (!Array.isArray(value)) throw invalidOption(option, `must be an array of scopes such as ['mcp:read']`)
  for (const scope of value) {
    if (!isScopeToken(scope)) {
      throw invalidOption(
        option,
        'must hold scopes of RFC 6749 §3.3 only: printable ASCII without space, quote and backslash',
      )
    }
  }
  return Object.freeze([...new Set(value as string[])])
}

/** A copy of a list of non-empty strings. */
export function checkTexts(option: string, value: unknown): readonly string[] {
  if (!Array.isArray(value) || value.some((text) => typeof text !== 'string' || text === '')) {
    throw invalidOption(option, 'must be an array of non-empty strings')
  }
  return Object.freeze([...value])
}

/** Scopes that a request must have: a challenge may never ask for `offline_access`. */
export function checkRequiredScopes(option: string, value: unknown): readonly string[] {
  const scopes = checkScopes(option, value)
  if (scopes.includes('offline_access')) {
    throw invalidOption(
      option,
      `must not hold 'offline_access': it is asked of the authorization server, not of a resource`,
    )
  }
  return scopes
}

/** A text that travels in a header. */
export function checkHeaderText(option: string, value: unknown): string {
  if (typeof value !== 'string' || value === '' || !isQuotable(value)) {
    throw invalidOption(option, 'must be a non-empty string of printable ASCII: it is sent in a header')
  }
  return value
}

export function checkBoolean(option: string, value: unknown): boolean {
  if (typeof value !== 'boolean') throw invalidOption(option, 'must be true or false')
  return value
}

/** A whole number from `min` to what a timer can hold. */
export function checkWholeNumber(option: string, value: unknown, min: number): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > 2_147_483_647) {
    throw invalidOption(option, `must be a whole number from ${min} to 2147483647`)
  }
  return value
}

export function checkFunction(option: string, value: unknown, mend: string): void {
  if (value === undefined || value === null) throw missingOption(option, mend)
  if (typeof value !== 'function') throw invalidOption(option, `must be a function: ${mend}`)
}
