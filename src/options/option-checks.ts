import { isQuotable } from '../http/quoted-string.ts'
import { MAX_TIMER_MS } from '../timers.ts'
import { KitMcpConfigError, type KitMcpConfigErrorCode } from './config-error.ts'
import { describeKind, describeValue, quotedName } from './describe-value.ts'
import { nearestName } from './nearest-name.ts'
import { isScopeToken } from './scope-token.ts'

/**
 * Who takes options, by the heading that `docs/reference/errors.md` has for it. Each option of `oauth` has a heading of its own
 * there: `#oauth-issuer`.
 */
export type OptionsHeading =
  | 'oauth'
  | 'jwtVerifier'
  | 'introspectionVerifier'
  | 'firstMatch'
  | 'cachedVerifier'
  | 'shareInvalidations'
  | 'redisReplayStore'
  | 'redisEventBus'
  | 'createMcpAdapter'
  | 'KitMcpRouter'
  | 'mcpAuth'
  | 'mcpHandler'
  | 'mcpCors'
  | 'mcpServer'
  | 'gracefulShutdown'
  | 'toolsFromOpenApi'
  | 'createTestIssuer'

/** What was given, for the message, and how to hint it. Without the first the message says by itself what was given. */
type Given = readonly [] | readonly [given: unknown] | readonly [given: unknown, hint: string]

/**
 * The checks of options that one function of this package takes. Every error of theirs names the option, says what was
 * expected and what was given, and ends with the heading of `docs/reference/errors.md` that tells more.
 */
export interface OptionChecks {
  missingOption(option: string, hint: string): KitMcpConfigError
  /** `<option> <expected>, got <what was given> (<hint>).` */
  invalidOption(option: string, expected: string, ...given: Given): KitMcpConfigError
  /** As `invalidOption`, for an option that takes a secret: what was given is told by its kind and length alone. */
  invalidKind(option: string, expected: string, given: unknown, hint?: string): KitMcpConfigError
  /** Refuses options that do not exist, naming the one that was probably meant. */
  checkKnownOptions(owner: string, given: object, known: readonly string[]): void
  /** The same for an option that is an object; its members are named after it: `sessions.max`. */
  checkKnownMembers(option: string, given: object, known: readonly string[]): void
  /** A URL that tokens may depend on: absolute, https (http only for loopback), no credentials, no fragment. */
  checkUrl(option: string, value: unknown, rules: UrlRules): URL
  /** The identifier of an authorization server: a URL as in `checkUrl`, without a query (RFC 8414 §2). */
  checkIssuer(option: string, value: unknown, rules: UrlRules): string
  /** A path as it appears in a request: a leading slash, no query, no fragment, nothing to normalise. */
  checkPath(option: string, value: unknown): string
  /** A list of scopes (RFC 6749 §3.3), each once. */
  checkScopes(option: string, value: unknown): readonly string[]
  /** Scopes that a request must have: a challenge may never ask for `offline_access`. */
  checkRequiredScopes(option: string, value: unknown): readonly string[]
  /** A copy of a list of non-empty strings. */
  checkTexts(option: string, value: unknown): readonly string[]
  /** A text that travels in a header. */
  checkHeaderText(option: string, value: unknown): string
  /** A text for people, which may be empty. */
  checkString(option: string, value: unknown): void
  checkBoolean(option: string, value: unknown): boolean
  /** A whole number from `min` to what a timer can hold. */
  checkWholeNumber(option: string, value: unknown, min: number): number
  /** Seconds from `min`, parts of one too; `'more than 0'` for a time that must pass. */
  checkSeconds(option: string, value: unknown, min: 0 | 'more than 0'): number
  checkFunction(option: string, value: unknown, hint: string): void
  checkOneOf<const Choice extends string>(option: string, value: unknown, choices: readonly Choice[]): Choice
}

export interface UrlRules {
  /** Allows http for hosts that are not loopback. */
  readonly allowInsecureHttp: boolean
}

/** What errors show of options that are addresses; of every other one the first. */
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

/** An object written as options: not null, not an array, not a function. */
export function isOptionsObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
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

/** ` Did you mean 'x'?` for the closest of `known`, or nothing when none is close. */
export function didYouMean(given: string, known: Iterable<string>): string {
  const meant = nearestName(given, known)
  return meant === undefined ? '' : ` Did you mean '${meant}'?`
}

/** The checks whose errors lead to `heading`. */
export function optionChecksOf(heading: OptionsHeading): OptionChecks {
  function configError(code: KitMcpConfigErrorCode, option: string, text: string, owner = option) {
    const [, first] = heading === 'oauth' ? (/^(\w+)/.exec(owner) ?? []) : []
    const anchor = first === undefined || first === heading ? heading : `${heading}-${first}`
    const docs = `docs/reference/errors.md#${anchor.toLowerCase()}`
    return new KitMcpConfigError(code, option, `${text}${/[.?]$/.test(text) ? '' : '.'} See ${docs}`, docs)
  }

  function invalid(option: string, expected: string, given: string, hint?: string): KitMcpConfigError {
    const mended = hint === undefined ? '' : ` (${hint})`
    return configError('MCP_CONFIG_INVALID_OPTION', option, `${option} ${expected}${given}${mended}`)
  }

  function checkKnown(owner: string, given: object, known: readonly string[], prefix: string): void {
    const unknown = Object.keys(given).find((option) => !known.includes(option))
    if (unknown === undefined) return
    const text = `${owner} has no option ${quotedName(unknown)}.${didYouMean(unknown, known)} Known are: ${known.join(', ')}.`
    throw configError('MCP_CONFIG_UNKNOWN_OPTION', prefix + unknown, text, owner)
  }

  const checks: OptionChecks = {
    missingOption: (option, hint) =>
      configError('MCP_CONFIG_MISSING_OPTION', option, `${option} is missing: ${hint}`),

    invalidOption: (option, expected, ...given) =>
      invalid(option, expected, given.length === 0 ? '' : `, got ${describeValue(given[0])}`, given[1]),

    invalidKind: (option, expected, given, hint) =>
      invalid(option, expected, `, got ${describeKind(given)}`, hint),

    checkKnownOptions: (owner, given, known) => checkKnown(owner, given, known, ''),

    checkKnownMembers: (option, given, known) => checkKnown(option, given, known, `${option}.`),

    checkUrl(option, value, { allowInsecureHttp }) {
      // Without the slashes a parser would add them.
      if (typeof value !== 'string' || !URL.canParse(value) || /^https?:(?!\/\/)/i.test(value.trim())) {
        throw checks.invalidOption(
          option,
          `must be an absolute URL such as '${EXAMPLES[option] ?? EXAMPLES.issuer}'`,
          value,
        )
      }
      const url = new URL(value)
      if (url.protocol !== 'https:' && url.protocol !== 'http:') {
        throw checks.invalidOption(option, 'must be an https URL', value)
      }
      if (url.protocol === 'http:' && !allowInsecureHttp && !isLoopbackHostname(url.hostname)) {
        throw checks.invalidOption(
          option,
          'must be an https URL',
          value,
          'http is accepted for loopback hosts only, or with allowInsecureHttp: true',
        )
      }
      if (url.username !== '' || url.password !== '') {
        throw checks.invalidOption(
          option,
          'must not carry credentials',
          value,
          'leave out what is before the @',
        )
      }
      if (value.includes('#')) {
        throw checks.invalidOption(
          option,
          'must not carry a fragment',
          value,
          'leave out the # and what follows',
        )
      }
      if (!isQuotable(value) || value.trim() !== value) {
        throw checks.invalidOption(
          option,
          'must be written in ASCII, without spaces around it or control characters',
          value,
        )
      }
      return url
    },

    checkIssuer(option, value, rules) {
      const { href } = checks.checkUrl(option, value, rules)
      if (href.includes('?')) {
        throw checks.invalidOption(
          option,
          'must not carry a query',
          value,
          'leave out the ? and what follows: an issuer has no query (RFC 8414 §2)',
        )
      }
      return value as string
    },

    checkPath(option, value) {
      if (typeof value !== 'string' || !value.startsWith('/') || value.startsWith('//')) {
        throw checks.invalidOption(
          option,
          `must be a path with one leading slash, such as '${EXAMPLES[option] ?? EXAMPLES.basePath}'`,
          value,
        )
      }
      if (
        new URL(value, 'http://localhost').pathname !== value ||
        (value.length > 1 && value.endsWith('/'))
      ) {
        throw checks.invalidOption(
          option,
          'must be a plain path: no query, fragment, spaces, dot segments or trailing slash',
          value,
        )
      }
      return value
    },

    checkScopes(option, value) {
      if (!Array.isArray(value))
        throw checks.invalidKind(option, `must be an array of scopes such as ['mcp:read']`, value)
      for (const scope of value) {
        if (!isScopeToken(scope)) {
          throw checks.invalidOption(
            option,
            'must hold scopes of RFC 6749 §3.3 only: printable ASCII without space, quote and backslash',
            scope,
            'each scope is an item of its own',
          )
        }
      }
      return Object.freeze([...new Set(value as string[])])
    },

    checkRequiredScopes(option, value) {
      const scopes = checks.checkScopes(option, value)
      if (scopes.includes('offline_access')) {
        throw checks.invalidOption(
          option,
          `must not hold 'offline_access': it is asked of the authorization server, not of a resource`,
        )
      }
      return scopes
    },

    checkTexts(option, value) {
      if (!Array.isArray(value))
        throw checks.invalidKind(option, 'must be an array of non-empty strings', value)
      for (const text of value) {
        if (typeof text !== 'string' || text === '')
          throw checks.invalidKind(
            option,
            'must be an array of non-empty strings',
            text,
            'as one of the items',
          )
      }
      return Object.freeze([...value])
    },

    checkHeaderText(option, value) {
      if (typeof value !== 'string' || value === '' || !isQuotable(value)) {
        throw checks.invalidOption(
          option,
          'must be a non-empty string of printable ASCII',
          value,
          'it is sent in a header',
        )
      }
      return value
    },

    checkString(option, value) {
      if (typeof value !== 'string') throw checks.invalidOption(option, 'must be a string', value)
    },

    checkBoolean(option, value) {
      if (typeof value !== 'boolean') throw checks.invalidOption(option, 'must be true or false', value)
      return value
    },

    checkWholeNumber(option, value, min) {
      if (typeof value !== 'number' || !Number.isInteger(value) || value < min || value > MAX_TIMER_MS) {
        throw checks.invalidOption(option, `must be a whole number from ${min} to ${MAX_TIMER_MS}`, value)
      }
      return value
    },

    checkSeconds(option, value, min) {
      const fits = typeof value === 'number' && value <= 2_147_483_647 && (min === 0 ? value >= 0 : value > 0)
      if (fits) return value
      const expected = min === 0 ? '0 or more' : 'more than 0'
      throw checks.invalidOption(
        option,
        `must be a number of seconds, ${expected} and at most 2147483647`,
        value,
      )
    },

    checkFunction(option, value, hint) {
      if (value === undefined || value === null) throw checks.missingOption(option, hint)
      if (typeof value !== 'function') throw checks.invalidKind(option, 'must be a function', value, hint)
    },

    checkOneOf(option, value, choices) {
      const chosen = choices.find((choice) => choice === value)
      if (chosen !== undefined) return chosen
      const listed = choices.map((choice) => `'${choice}'`)
      const last = listed.pop()
      const expected = `must be ${listed.join(', ')} or ${last}`
      const meant = typeof value === 'string' ? nearestName(value, choices) : undefined
      if (meant === undefined) throw checks.invalidOption(option, expected, value)
      throw checks.invalidOption(option, expected, value, `did you mean '${meant}'?`)
    },
  }
  return checks
}
