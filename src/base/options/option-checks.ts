import { isQuotable } from '../http/quoted-string.ts'
import { MAX_TIMER_MS } from '../timers.ts'
import { KitMcpConfigError, type KitMcpConfigErrorCode } from './config-error.ts'
import { quotedName } from './describe-value.ts'
import { isText, isTime, type OptionProblem, optionKit, withHelp } from './option-kit.ts'
import type { OptionRule } from './option-rules.ts'
import { isScopeToken } from './scope-token.ts'

export { didYouMean } from './nearest-name.ts'
export { isOptionsObject } from './option-kit.ts'

/** The checks of the options that one function of this package takes. Every error names the option and its anchor. */
export type OptionChecks = ReturnType<typeof optionChecksOf>

/** `true` allows http for hosts that are not loopback. `never` says that the caller has no option of this name. */
export interface UrlRules {
  readonly allowInsecureHttp?: unknown
}

const CODES: Readonly<Record<OptionProblem['kind'], KitMcpConfigErrorCode>> = {
  missing: 'MCP_CONFIG_MISSING_OPTION',
  invalid: 'MCP_CONFIG_INVALID_OPTION',
  unknown: 'MCP_CONFIG_UNKNOWN_OPTION',
}

/** The example that a message shows for an option. Options that are not listed show the first one. */
const EXAMPLES: Readonly<Record<string, string>> = {
  issuer: 'https://auth.example.com',
  resource: 'https://mcp.example.com/mcp',
  resourceDocumentation: 'https://docs.example.com/mcp',
  jwksUri: 'https://auth.example.com/jwks',
  endpoint: 'https://auth.example.com/introspect',
  baseUrl: 'https://api.example.com',
  resourceMetadataPath: '/.well-known/oauth-protected-resource',
  basePath: '/api',
}

const HTTPS_ONLY: UrlRules = { allowInsecureHttp: 'never' }
const HTTPS_URL = 'must be an https URL, or an http URL of a loopback host'

/** The characters of ASCII that no URL contains (RFC 3986 section 2). Control characters are refused before. */
const NOT_IN_URLS = /[\s"<>\\^`{|}]/

/** Returns `true` for `localhost` and its subdomains, 127.0.0.0/8, and `[::1]`, which never leave the machine. */
export function isLoopbackHostname(hostname: string): boolean {
  const name = hostname.toLowerCase()
  return (
    name === 'localhost' ||
    name.endsWith('.localhost') ||
    name === '[::1]' ||
    /^127(?:\.\d{1,3}){3}$/.test(name)
  )
}

/**
 * Returns the checks of the options of a function.
 * @param heading the function, as its heading in `docs/reference/errors.md`. Each option of `oauth` has its own heading:
 * `#oauth-issuer`.
 */
export function optionChecksOf(heading: string) {
  const kit = optionKit(({ kind, option, owner, message }) => {
    const [, first] = heading === 'oauth' ? (/^(\w+)/.exec(owner) ?? []) : []
    const anchor = (first === undefined || first === heading ? heading : `${heading}-${first}`).toLowerCase()
    return new KitMcpConfigError(
      CODES[kind],
      option,
      withHelp(message, anchor),
      `docs/reference/errors.md#${anchor}`,
    )
  })

  const scope = kit.fitting<string>(
    isScopeToken,
    'must contain only scopes of RFC 6749 section 3.3: printable ASCII without space, quote, and backslash',
    'Make each scope a separate item.',
  )

  const checks = {
    ...kit,

    /** A URL that tokens may depend on: absolute, https (http only for loopback), without credentials and fragment. */
    checkUrl(option: string, value: unknown, { allowInsecureHttp }: UrlRules): URL {
      const wrong = (expected: string, fix?: string) => kit.invalidOption(option, expected, value, fix)
      // Without the slashes a parser would add them.
      if (typeof value !== 'string' || !URL.canParse(value) || /^https?:(?!\/\/[^/])/i.test(value.trim()))
        throw wrong(`must be an absolute URL such as '${EXAMPLES[option] ?? EXAMPLES.issuer}'`)
      const url = new URL(value)
      if (url.protocol !== 'https:' && url.protocol !== 'http:') throw wrong(HTTPS_URL)
      if (url.protocol === 'http:' && allowInsecureHttp !== true && !isLoopbackHostname(url.hostname))
        throw wrong(
          HTTPS_URL,
          allowInsecureHttp === 'never' ? 'Use https.' : 'Set allowInsecureHttp: true to allow http.',
        )
      if (url.username !== '' || url.password !== '')
        throw wrong('must not contain credentials', 'Remove the part before the @.')
      if (value.includes('#'))
        throw wrong('must not contain a fragment', 'Remove the # and everything after it.')
      if (!isQuotable(value) || value.trim() !== value)
        throw wrong('must be ASCII without control characters or surrounding spaces')
      if (NOT_IN_URLS.test(value))
        throw wrong(
          'must not contain spaces or any of " < > \\ ^ ` { | }',
          'Percent-encode them (RFC 3986 section 2).',
        )
      return url
    },

    /** The rule of a URL, as in `checkUrl`. The option `allowInsecureHttp` of the same object allows http. */
    url(option: string, value: unknown, given: UrlRules): string {
      checks.checkUrl(option, value, given)
      return value as string
    },

    /** The rule of a URL, as in `checkUrl`, for options objects without `allowInsecureHttp`. */
    httpsUrl: (option: string, value: unknown): string => checks.url(option, value, HTTPS_ONLY),

    /** The URI of a resource: a URL as in `checkUrl`, spelled as URLs are compared. Of an origin, the final slash is optional. */
    checkResource(option: string, value: unknown, rules: UrlRules): string {
      const normalized = typeof value === 'string' && URL.canParse(value) ? new URL(value).href : value
      const { href, origin } = checks.checkUrl(option, normalized, rules)
      const right = href === `${origin}/` && !(value as string).endsWith('/') ? origin : href
      if (value === right) return right
      const rule = 'must be ASCII, with a lower-case host, and no default port or dot segments'
      throw kit.invalidOption(option, `${rule}; received ${quotedName(value as string)}. Write '${right}'.`)
    },

    /** The rule of the identifier of an authorization server: a URL as in `url`, without a query (RFC 8414 section 2). */
    issuer(option: string, value: unknown, given: UrlRules): string {
      const { href } = checks.checkUrl(option, value, given)
      const fix = 'Remove the ? and everything after it, because an issuer has no query (RFC 8414 section 2).'
      if (href.includes('?')) throw kit.invalidOption(option, 'must not contain a query', value, fix)
      return value as string
    },

    /** The rule of an issuer, for options objects without `allowInsecureHttp`. */
    httpsIssuer: (option: string, value: unknown): string => checks.issuer(option, value, HTTPS_ONLY),

    /** A path as it appears in a request: a leading slash, no query, no fragment, and nothing to normalize. */
    checkPath(option: string, value: unknown): string {
      const wrong = (expected: string) => kit.invalidOption(option, expected, value)
      if (typeof value !== 'string' || !value.startsWith('/') || value.startsWith('//'))
        throw wrong(`must be a path with one leading slash, like '${EXAMPLES[option] ?? EXAMPLES.basePath}'`)
      if (new URL(value, 'http://localhost').pathname !== value || (value.length > 1 && value.endsWith('/')))
        throw wrong('must be a plain path without query, fragment, spaces, dot segments, or trailing slash')
      return value
    },

    /** A list of scopes (RFC 6749 section 3.3) without duplicates. */
    checkScopes(option: string, value: unknown): readonly string[] {
      const scopes = kit.items(`must be an array of scopes such as ['mcp:read']`, scope)(option, value, {})
      return Object.freeze([...new Set(scopes)])
    },

    /** Scopes that a request must have. A challenge may never ask for `offline_access`. */
    checkRequiredScopes(option: string, value: unknown): readonly string[] {
      const scopes = checks.checkScopes(option, value)
      const fix = 'Remove it, because clients request it from the authorization server.'
      if (scopes.includes('offline_access'))
        throw kit.unusableOption(option, `must not contain 'offline_access'`, fix)
      return scopes
    },

    /** A string that is sent in a header. */
    headerText: kit.fitting<string>(
      (value) => isText(value) && isQuotable(value),
      'must be a non-empty string of printable ASCII, because it is sent in a header',
    ),

    /** The rule of a function that returns the IP address of the client of a request. */
    clientAddress: kit.callable<(request: Request) => string | undefined>(
      'set it to a function that returns the IP address of the client',
    ),

    /** The rule of a number of seconds, fractions included. */
    seconds: (min: 0 | 'more than 0'): OptionRule<number> =>
      kit.fitting(
        (value) => isTime(value, min),
        `must be a number of seconds, ${min === 0 ? '0 or more' : min} and at most ${MAX_TIMER_MS}`,
      ),
  }
  return checks
}
