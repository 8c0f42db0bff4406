import { describeValue } from '../base/options/describe-value.ts'
import { didYouMean, optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'
import type { KitContext } from '../mcp/router/context.ts'
import type { OpenApiOperation, ScopeMapping } from './operations.ts'
import type { RouteApp } from './route-target.ts'

const checks = optionChecksOf('toolsFromOpenApi')

/** Selects operations of a document. An operation must match every given rule. */
export interface OperationFilter {
  /** Selects operations with one of these tags. */
  readonly tags?: readonly string[] | undefined
  /** Selects operations with one of these ids. `*` matches any characters. */
  readonly operationIds?: readonly string[] | undefined
  /** Selects operations of these paths, as in the document. `*` matches any characters. */
  readonly paths?: readonly string[] | undefined
}

/** An operation that did not become a tool. */
export interface LeftOutOperation extends OpenApiOperation {
  /** The reason, for people. */
  readonly why: string
}

/** Options of {@link toolsFromOpenApi}. Either `app` or `baseUrl` is required. */
export interface OpenApiToolOptions<App = unknown> {
  /** The app whose routes are called, in this process and without a socket. */
  readonly app?: RouteApp | undefined
  /** The server whose routes are called, over HTTP. The paths of the document are appended. */
  readonly baseUrl?: string | undefined
  /** Allows http in `baseUrl` for hosts other than loopback hosts. Defaults to `false`. */
  readonly allowInsecureHttp?: boolean | undefined
  /** The path in `app` at which the paths of the document begin. Defaults to the path of the document's first server. */
  readonly basePath?: string | undefined
  /** Selects the operations that become tools. By default, all operations do. */
  readonly include?: OperationFilter | ((operation: OpenApiOperation) => boolean) | undefined
  /**
   * Maps the scopes of the document's `security` to scopes of tools. `false` gives tools no scopes. By default, tools need the
   * scopes of the document.
   */
  readonly scopes?: ScopeMapping | false | undefined
  /**
   * Selects the operations that can be called without a token if the OAuth option `anonymous` is set. Those for which the
   * document requires scopes cannot be selected. By default, none is selected.
   */
  readonly public?: OperationFilter | ((operation: OpenApiOperation) => boolean) | undefined
  /** Gives tools the output schemas of the document, and validates responses. Defaults to `true`. */
  readonly outputSchemas?: boolean | undefined
  /** Returns headers for a request, such as the application's own credentials. Headers of the client are not passed on. */
  readonly headers?:
    | ((
        context: KitContext<App>,
      ) => Readonly<Record<string, string>> | Promise<Readonly<Record<string, string>>>)
    | undefined
  /** The time in which a response must be complete, in milliseconds. Defaults to 30 000 ms. */
  readonly timeoutMs?: number | undefined
  /** The maximum size of a response, in bytes. Defaults to 1 048 576 (1 MiB). */
  readonly maxResponseBytes?: number | undefined
  /** Called for each operation that cannot be a tool, with the reason. */
  readonly onLeftOut?: ((operation: LeftOutOperation) => void) | undefined
}

type OperationSelection = OperationFilter | ((operation: OpenApiOperation) => boolean)

const patterns = optional(
  checks.fittingKind<readonly string[]>(
    (given) => Array.isArray(given) && given.every((one) => typeof one === 'string'),
    'must be an array of strings',
  ),
)
const FILTER_RULES = {
  tags: patterns,
  operationIds: patterns,
  paths: patterns,
} satisfies RulesFor<OperationFilter>

const FILTER = 'must be a function or rules such as { tags: […], operationIds: […] }'

const checkFilter = checks.members(FILTER, FILTER_RULES)

const mappingRule = checks.callable<ScopeMapping>('set it to a function that maps scopes, or to false')

const RULES = {
  app: optional(checks.callable<RouteApp>('set it to an Express app or any listener of node:http')),
  baseUrl: optional(checkBaseUrl),
  allowInsecureHttp: optional(checks.checkBoolean, false),
  basePath: optional((option, value) => (value === '/' ? value : checks.checkPath(option, value))),
  include: optional(checkSelection, () => true),
  scopes: optional<ScopeMapping | false>((option, value, given) =>
    value === false ? value : mappingRule(option, value, given),
  ),
  public: optional(checkSelection, () => false),
  outputSchemas: optional(checks.checkBoolean, true),
  headers: optional(
    checks.callable<NonNullable<OpenApiToolOptions['headers']>>('set it to a function that returns headers'),
  ),
  timeoutMs: optional(checks.wholeNumber(1), 30_000),
  maxResponseBytes: optional(checks.wholeNumber(1), 1024 * 1024),
  onLeftOut: optional(
    checks.callable<(operation: LeftOutOperation) => void>(
      'set it to a function that receives each operation that cannot be a tool',
    ),
    () => undefined,
  ),
} satisfies RulesFor<OpenApiToolOptions>

/** `OpenApiToolOptions`, validated and with defaults. */
export type ResolvedOpenApiToolOptions = ReadBy<typeof RULES>

/** @throws {KitMcpConfigError} if an option is missing, invalid, or unknown. */
export function resolveOpenApiToolOptions(options: OpenApiToolOptions<any>): ResolvedOpenApiToolOptions {
  if (options === undefined) throw checks.missingOption('options', 'pass { app } or { baseUrl }')
  const expected = 'must be { app } or { baseUrl }'
  const resolved = checks.readOptions('toolsFromOpenApi', expected, options, RULES, 'options')
  const { app, baseUrl, basePath } = resolved
  if (app === undefined && baseUrl === undefined) throw checks.missingOption('app', APP_FIX)
  if (app !== undefined && baseUrl !== undefined)
    throw checks.invalidOption('baseUrl', 'cannot be given together with app. Remove one of them')
  if (basePath !== undefined && baseUrl !== undefined)
    throw checks.invalidOption('basePath', 'can be used only with app. Put the path into baseUrl')
  return resolved
}

const APP_FIX = 'set it to the app whose routes are called, or set baseUrl to the URL of a server'

function checkBaseUrl(
  option: string,
  value: unknown,
  { allowInsecureHttp }: Readonly<Record<string, unknown>>,
): URL {
  const url = checks.checkUrl(option, value, { allowInsecureHttp: allowInsecureHttp === true })
  if (url.search !== '') throw checks.invalidOption(option, 'must not contain a query', value)
  return url
}

function checkSelection(option: string, selection: unknown): OperationSelection {
  if (typeof selection === 'function') return selection as (operation: OpenApiOperation) => boolean
  const filter = checkFilter(option, selection, {})
  // Without rules, every operation would be public.
  if (option === 'public' && Object.values(filter).every((patterns) => patterns === undefined))
    throw checks.invalidOption(option, 'must have at least one of tags, operationIds, and paths', selection)
  return filter
}

/**
 * Returns the operations that an option selects.
 * @throws {KitMcpConfigError} if a pattern does not match any operation, or `public` does not return a boolean.
 */
export function selectedBy<Operation extends OpenApiOperation>(
  option: 'include' | 'public',
  selection: OperationSelection,
  operations: readonly Operation[],
): readonly Operation[] {
  if (typeof selection === 'function') {
    return operations.filter((operation) => {
      const isSelected = selection(operation)
      // A promise would make every operation public.
      return option === 'public' ? checks.checkBoolean('the return value of public', isSelected) : isSelected
    })
  }
  const rules = Object.entries(VALUES).flatMap(([filter, valuesOf]) => {
    const given = selection[filter as keyof OperationFilter]
    return given === undefined ? [] : [{ filter, given, valuesOf }]
  })
  for (const { filter, given, valuesOf } of rules) {
    const known = new Set(operations.flatMap(valuesOf))
    for (const pattern of given) {
      if ([...known].some((value) => matches(pattern, value))) continue
      const problem = `has ${describeValue(pattern)}, which does not match anything in the document`
      throw checks.invalidOption(`${option}.${filter}`, `${problem}.${didYouMean(pattern, known)}`)
    }
  }
  return operations.filter((operation) =>
    rules.every(({ given, valuesOf }) =>
      valuesOf(operation).some((value) => given.some((pattern) => matches(pattern, value))),
    ),
  )
}

const VALUES: Readonly<Record<keyof OperationFilter, (operation: OpenApiOperation) => readonly string[]>> = {
  tags: ({ tags }) => tags,
  operationIds: ({ operationId }) => (operationId === undefined ? [] : [operationId]),
  paths: ({ path }) => [path],
}

/** Returns `true` if `value` matches a pattern. Takes linear time for each `*`. */
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
