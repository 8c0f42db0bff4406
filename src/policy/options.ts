import { isLoopbackHostname, isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../options/option-rules.ts'
import { defaultMapping } from './default-mapping.ts'
import type { AuthZenMapping } from './evaluation.ts'

const {
  callable,
  checkUrl,
  invalidKind,
  invalidOption,
  milliseconds,
  readOptions,
  required,
  unusableOption,
} = optionChecksOf('authzen')

/** The headers of a request, by name. */
export type AuthZenHeaders = Readonly<Record<string, string>>

/** Options of {@link authzen}. */
export interface AuthZenOptions<App = any, User = any> {
  /** The base URL of the decision point: https, or http for a loopback host. `/access/v1/evaluation` is added to it. */
  readonly url: string
  /**
   * The headers of each request, such as the credentials of this server, or a function that returns them. Errors never contain
   * the values.
   */
  readonly headers?: AuthZenHeaders | (() => AuthZenHeaders | Promise<AuthZenHeaders>) | undefined
  /**
   * The maximum time for one request to the decision point, in milliseconds. It should be less than `authorizeTimeoutMs`.
   * Defaults to 4 000 ms.
   */
  readonly timeoutMs?: number | undefined
  /** Returns the question about an operation. Defaults to the mapping of the COAZ binding for MCP. */
  readonly mapping?: AuthZenMapping<App, User> | undefined
}

/** Headers that describe the connection or the body, or that every request already has. */
const RESERVED_HEADERS: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'expect',
  'host',
  'keep-alive',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'x-request-id',
])

/** The headers of each request to the decision point. Throws or rejects if they cannot be sent. */
type HeadersOf = () => Headers | Promise<Headers>

const RULES = {
  url: required(checkBaseUrl, 'set it to the base URL of the policy decision point'),
  headers: resolveHeaders,
  timeoutMs: optional(milliseconds('more than 0'), 4_000),
  mapping: optional(
    callable<AuthZenMapping>('set it to a function that returns { subject, action, resource }'),
    defaultMapping,
  ),
} satisfies RulesFor<AuthZenOptions>

/** `AuthZenOptions`, checked and with their defaults. */
export interface ResolvedAuthZenOptions extends Omit<ReadBy<typeof RULES>, 'url'> {
  readonly evaluationUrl: string
  readonly evaluationsUrl: string
}

/** @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. */
export function resolveAuthZenOptions(options: AuthZenOptions): ResolvedAuthZenOptions {
  const expected = "must be called with an object such as { url: 'https://pdp.example.com' }"
  const { url, ...others } = readOptions('authzen', expected, options, RULES)
  return {
    ...others,
    evaluationUrl: `${url}/access/v1/evaluation`,
    evaluationsUrl: `${url}/access/v1/evaluations`,
  }
}

function checkBaseUrl(option: string, value: unknown): string {
  const { protocol, hostname, href, pathname } = checkUrl(option, value, { allowInsecureHttp: true })
  if (protocol === 'http:' && !isLoopbackHostname(hostname))
    throw invalidOption('url', 'must be an https URL, or an http URL of a loopback host', value)
  if (href.includes('?'))
    throw invalidOption('url', 'must not contain a query', value, 'Send credentials as headers.')
  if (/\/access\/v1\/evaluations?\/?$/.test(pathname))
    throw invalidOption(
      'url',
      'must be the base URL of the decision point',
      value,
      'Remove /access/v1 and what follows.',
    )
  return href.endsWith('/') ? href.slice(0, -1) : href
}

function resolveHeaders(_option: string, given: unknown = {}): HeadersOf {
  if (typeof given === 'function') {
    return async () => {
      const returned: unknown = await given()
      const problem = problemInHeaders(returned)
      if (problem !== undefined) throw new TypeError(`The function headers of authzen ${problem}`)
      return new Headers(returned as AuthZenHeaders)
    }
  }
  if (!isOptionsObject(given))
    throw invalidKind(
      'headers',
      "must be an object of strings such as { 'x-api-key': '…' }, or a function",
      given,
    )
  const problem = problemInHeaders(given)
  if (problem !== undefined) throw unusableOption('headers', problem)
  const headers = new Headers(given as AuthZenHeaders)
  return () => new Headers(headers)
}

/** Describes why headers cannot be sent, without names and values, which may be secrets. Returns undefined if they can be sent. */
function problemInHeaders(given: unknown): string | undefined {
  if (!isOptionsObject(given)) return 'must be an object of strings'
  for (const [name, value] of Object.entries(given)) {
    if (RESERVED_HEADERS.has(name.toLowerCase()))
      return `must not contain ${name.toLowerCase()}, which is set for each request`
    if (typeof value !== 'string' || !isHeader(name, value))
      return 'must not contain a name or a value that HTTP does not allow'
  }
  return undefined
}

function isHeader(name: string, value: string): boolean {
  try {
    new Headers([[name, value]])
    return true
  } catch {
    return false
  }
}
