import type { KitContext } from '../mcp/router/context.ts'
import { describeValue } from '../options/describe-value.ts'
import { didYouMean, isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import type { OpenApiOperation, ScopeMapping } from './operations.ts'
import type { RouteApp } from './route-target.ts'

const {
  checkBoolean,
  checkFunction,
  checkKnownMembers,
  checkKnownOptions,
  checkPath,
  checkUrl,
  checkWholeNumber,
  invalidKind,
  invalidOption,
  missingOption,
} = optionChecksOf('toolsFromOpenApi')

/** Which operations become tools: every rule that is given must hold. */
export interface OperationFilter {
  /** Operations with one of these tags. */
  readonly tags?: readonly string[] | undefined
  /** Operations with one of these ids; `*` is any run of characters. */
  readonly operationIds?: readonly string[] | undefined
  /** Operations of these paths, as the document writes them; `*` is any run of characters. */
  readonly paths?: readonly string[] | undefined
}

/** An operation that became no tool. */
export interface LeftOutOperation extends OpenApiOperation {
  /** What keeps it from being a tool, for people. */
  readonly why: string
}

/** What `toolsFromOpenApi()` takes beside the document: `app` or `baseUrl`, and how the tools are made. */
export interface OpenApiToolOptions<App = unknown> {
  /** The app whose routes are called, in this process and without a socket. Either this or `baseUrl`. */
  readonly app?: RouteApp | undefined
  /** The server whose routes are called, over HTTP. The paths of the document are appended. */
  readonly baseUrl?: string | undefined
  /** Allows http in `baseUrl` for hosts that are not loopback. Default false. */
  readonly allowInsecureHttp?: boolean | undefined
  /** Where in `app` the document's paths begin. Default: the path of the document's first server. */
  readonly basePath?: string | undefined
  /** Which operations become tools. Default: all. */
  readonly include?: OperationFilter | ((operation: OpenApiOperation) => boolean) | undefined
  /**
   * What the document's `security` means for tools. Default: its scopes are the tool's. `false`: none; a function:
   * what it makes of each.
   */
  readonly scopes?: ScopeMapping | false | undefined
  /** Whether tools promise what the document says of answers, and are held to it. Default true. */
  readonly outputSchemas?: boolean | undefined
  /** Headers of the application for a request, such as its own credentials. Nothing of the client is passed on. */
  readonly headers?:
    | ((
        context: KitContext<App>,
      ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)
    | undefined
  /** Milliseconds for an answer, to its last byte. Default 30 000. */
  readonly timeoutMs?: number | undefined
  /** Largest answer in bytes. Default 1 MiB. */
  readonly maxAnswerBytes?: number | undefined
  /** Called for each operation that cannot be a tool, and says why. */
  readonly onLeftOut?: ((operation: LeftOutOperation) => void) | undefined
}

/** `OpenApiToolOptions`, checked and with their defaults. */
export interface ResolvedOpenApiToolOptions {
  readonly app: RouteApp | undefined
  readonly baseUrl: URL | undefined
  readonly basePath: string | undefined
  readonly include: OperationFilter | ((operation: OpenApiOperation) => boolean) | undefined
  readonly scopes: ScopeMapping | false | undefined
  readonly outputSchemas: boolean
  readonly headers: OpenApiToolOptions['headers']
  readonly timeoutMs: number
  readonly maxAnswerBytes: number
  readonly onLeftOut: (operation: LeftOutOperation) => void
}

const OPTIONS = [
  'app',
  'baseUrl',
  'allowInsecureHttp',
  'basePath',
  'include',
  'scopes',
  'outputSchemas',
  'headers',
  'timeoutMs',
  'maxAnswerBytes',
  'onLeftOut',
] as const

const FILTERS = ['tags', 'operationIds', 'paths'] as const

/** @throws {KitMcpConfigError} naming the option. */
export function resolveOpenApiToolOptions(options: OpenApiToolOptions<any>): ResolvedOpenApiToolOptions {
  if (options === undefined) throw missingOption('options', 'give { app } or { baseUrl }')
  if (!isOptionsObject(options)) throw invalidKind('options', 'must be { app } or { baseUrl }', options)
  checkKnownOptions('toolsFromOpenApi', options, OPTIONS)
  const { app, baseUrl, basePath, include, scopes, headers, onLeftOut } = options
  const { outputSchemas = true, timeoutMs = 30_000, maxAnswerBytes = 1024 * 1024 } = options
  if (app === undefined && baseUrl === undefined)
    throw missingOption('app', 'give the app whose routes are called, or the baseUrl of a server')
  if (app !== undefined && baseUrl !== undefined) throw invalidOption('baseUrl', 'and app exclude each other')
  if (app !== undefined) checkFunction('app', app, 'an Express app, or any listener of node:http')
  const allowInsecureHttp =
    options.allowInsecureHttp === undefined
      ? false
      : checkBoolean('allowInsecureHttp', options.allowInsecureHttp)
  const url = baseUrl === undefined ? undefined : checkUrl('baseUrl', baseUrl, { allowInsecureHttp })
  if (url !== undefined && url.search !== '')
    throw invalidOption('baseUrl', 'must not carry a query', baseUrl)
  if (basePath !== undefined && url !== undefined)
    throw invalidOption('basePath', 'belongs to app: put the path into baseUrl')
  if (headers !== undefined) checkFunction('headers', headers, 'it returns the headers for a request')
  if (onLeftOut !== undefined) checkFunction('onLeftOut', onLeftOut, 'it is told what became no tool')
  if (scopes !== undefined && scopes !== false)
    checkFunction('scopes', scopes, 'it names the scopes of a tool; or give false for none')
  return {
    app,
    baseUrl: url,
    basePath: basePath === undefined || basePath === '/' ? basePath : checkPath('basePath', basePath),
    include: include === undefined ? undefined : checkInclude(include),
    scopes,
    outputSchemas: checkBoolean('outputSchemas', outputSchemas),
    headers,
    timeoutMs: checkWholeNumber('timeoutMs', timeoutMs, 1),
    maxAnswerBytes: checkWholeNumber('maxAnswerBytes', maxAnswerBytes, 1),
    onLeftOut: onLeftOut ?? (() => undefined),
  }
}

function checkInclude(include: unknown): NonNullable<ResolvedOpenApiToolOptions['include']> {
  if (typeof include === 'function') return include as (operation: OpenApiOperation) => boolean
  if (!isOptionsObject(include))
    throw invalidKind(
      'include',
      'must be a function, or rules such as { tags: […], operationIds: […] }',
      include,
    )
  checkKnownMembers('include', include, FILTERS)
  for (const filter of FILTERS) {
    const given = (include as OperationFilter)[filter]
    if (given === undefined) continue
    if (!Array.isArray(given) || given.some((one) => typeof one !== 'string'))
      throw invalidKind(`include.${filter}`, 'must be an array of strings', given)
  }
  return include as OperationFilter
}

/**
 * The operations that `include` asks for.
 * @throws {KitMcpConfigError} for a rule that holds for none, naming what was probably meant.
 */
export function included<Operation extends OpenApiOperation>(
  operations: readonly Operation[],
  include: ResolvedOpenApiToolOptions['include'],
): readonly Operation[] {
  if (include === undefined) return operations
  if (typeof include === 'function') return operations.filter((operation) => include(operation))
  const rules = FILTERS.flatMap((filter) => {
    const given = include[filter]
    return given === undefined ? [] : [{ filter, given, valuesOf: VALUES[filter] }]
  })
  for (const { filter, given, valuesOf } of rules) {
    const known = new Set(operations.flatMap(valuesOf))
    for (const pattern of given) {
      if ([...known].some((value) => matches(pattern, value))) continue
      throw invalidOption(
        `include.${filter}`,
        `has ${describeValue(pattern)}, which the document has not.${didYouMean(pattern, known)}`,
      )
    }
  }
  return operations.filter((operation) =>
    rules.every(({ given, valuesOf }) =>
      valuesOf(operation).some((value) => given.some((pattern) => matches(pattern, value))),
    ),
  )
}

const VALUES: Readonly<Record<(typeof FILTERS)[number], (operation: OpenApiOperation) => readonly string[]>> =
  {
    tags: ({ tags }) => tags,
    operationIds: ({ operationId }) => (operationId === undefined ? [] : [operationId]),
    paths: ({ path }) => [path],
  }

/** In linear time for each star. */
function matches(pattern: string, value: string): boolean {
  const [first = '', ...rest] = pattern.split('*')
  const last = rest.pop()
  if (last === undefined) return pattern === value
  if (!value.startsWith(first)) return false
  let from = first.length
  for (const part of rest) {
    const at = value.indexOf(part, from)
    if (at < 0) return false
    from = at + part.length
  }
  return value.length - last.length >= from && value.endsWith(last)
}
