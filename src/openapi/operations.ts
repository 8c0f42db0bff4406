import { describeValue } from '../base/options/describe-value.ts'
import { isOptionsObject, optionChecksOf } from '../base/options/option-checks.ts'
import { isScopeToken } from '../base/options/scope-token.ts'
import { unionOfScopes } from '../oauth/scope.ts'
import type { Node, OpenApiDocument } from './document.ts'

const { invalidOption } = optionChecksOf('toolsFromOpenApi')

/** An operation of a document, as `include`, `scopes`, and `public` receive it. */
export interface OpenApiOperation {
  /** The HTTP method in upper case. */
  readonly method: string
  /** The path as in the document, such as `/pets/{petId}`. */
  readonly path: string
  /** The `operationId`, if there is one. */
  readonly operationId?: string
  /** The tags. Empty if there are none. */
  readonly tags: readonly string[]
  /** The summary of the operation, or else of its path. */
  readonly summary?: string
  /** The description of the operation, or else of its path. */
  readonly description?: string
  /** `true` if the document marks the operation as deprecated. */
  readonly deprecated: boolean
}

/** An operation with its parts of the document. */
export interface FoundOperation extends OpenApiOperation {
  readonly node: Node
  /** The parameters of the operation and of its path, with references resolved. Those of the operation have priority. */
  readonly parameters: readonly Node[]
}

const METHODS = new Set(['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'])

/** Returns all operations in the order of the document. */
export function operationsOf(document: OpenApiDocument): FoundOperation[] {
  const found: FoundOperation[] = []
  for (const [path, item] of Object.entries((document.root.paths ?? {}) as Node)) {
    const pathItem = document.resolve(item)
    if (!path.startsWith('/') || pathItem === undefined) continue
    for (const [method, given] of Object.entries(pathItem)) {
      if (!METHODS.has(method) || !isOptionsObject(given)) continue
      const node = given as Node
      const { operationId, tags, summary = pathItem.summary, description = pathItem.description } = node
      found.push({
        method: method.toUpperCase(),
        path,
        ...(typeof operationId === 'string' && { operationId }),
        tags: Array.isArray(tags) ? tags.filter((tag) => typeof tag === 'string') : [],
        ...(typeof summary === 'string' && summary !== '' && { summary }),
        ...(typeof description === 'string' && description !== '' && { description }),
        deprecated: node.deprecated === true,
        node,
        parameters: parametersOf(document, pathItem, node),
      })
    }
  }
  return found
}

function parametersOf(document: OpenApiDocument, ...owners: readonly Node[]): Node[] {
  const given: unknown[] = owners.flatMap(({ parameters }) => (Array.isArray(parameters) ? parameters : []))
  const found = given.map((one) => document.resolve(one)).filter((one) => one !== undefined)
  return [...new Map(found.map((one) => [`${one.in} ${one.name}`, one])).values()]
}

/**
 * Returns a tool name that every MCP client and model accepts: up to 64 characters of `A-Z a-z 0-9 _ -`.
 * @param taken the names that are used. The new one is added.
 */
export function toolNameOf({ operationId, method, path }: OpenApiOperation, taken: Set<string>): string {
  const wanted = sanitised(operationId ?? '') || sanitised(`${method.toLowerCase()}${path}`) || 'operation'
  return newName(wanted, taken, 64)
}

/** Returns a name that is not taken: `wanted`, or `wanted` with a number. Adds it to `taken`. */
export function newName(wanted: string, taken: Set<string>, maxLength = Number.POSITIVE_INFINITY): string {
  let name = wanted.slice(0, maxLength)
  for (let number = 2; taken.has(name); number++) {
    const suffix = `_${number}`
    name = wanted.slice(0, maxLength - suffix.length) + suffix
  }
  taken.add(name)
  return name
}

function sanitised(text: string): string {
  const replaced = text.replace(/[^A-Za-z0-9_-]+/g, '_')
  let [start, end] = [0, replaced.length]
  while (replaced[start] === '_') start++
  while (end > start && replaced[end - 1] === '_') end--
  return replaced.slice(start, end)
}

/**
 * Returns the name that a scope of the document has at the authorization server, several names, or `undefined` for no scope.
 */
export type ScopeMapping = (
  scope: string,
  operation: OpenApiOperation,
) => string | readonly string[] | undefined

/**
 * Returns the scopes that the document's `security` requires for an operation: those of its `oauth2` and `openIdConnect`
 * schemes. If there are several alternatives, the first with such a scheme counts. If `security` is optional (`{}`), there are
 * no scopes.
 * @throws {KitMcpConfigError} if the document does not define a security scheme.
 */
export function scopesOf(
  document: OpenApiDocument,
  operation: FoundOperation,
  mapping: ScopeMapping | undefined,
): readonly string[] {
  const security = (operation.node.security ?? document.root.security ?? []) as readonly Node[]
  const components = (document.root.components ?? {}) as Node
  const schemes = (components.securitySchemes ?? {}) as Node
  let chosen: string[] | undefined
  for (const alternative of security) {
    const names = Object.keys(alternative)
    if (names.length === 0) return []
    const scopes = names.flatMap((name) => {
      const scheme = Object.hasOwn(schemes, name) ? document.resolve(schemes[name]) : undefined
      const problem = `security scheme '${name}' is not in #/components/securitySchemes`
      if (scheme === undefined)
        throw invalidOption('document', `is wrong at ${placeOf(operation)}: ${problem}`)
      if (scheme.type !== 'oauth2' && scheme.type !== 'openIdConnect') return []
      return [alternative[name] as readonly string[]]
    })
    if (chosen === undefined && scopes.length > 0) chosen = scopes.flat()
  }
  const mapped = (chosen ?? []).map((scope) => {
    const named = mapping === undefined ? scope : mapping(scope, operation)
    return named === undefined ? [] : [named].flat()
  })
  const scopes = unionOfScopes([...new Set(mapped.flat())]).filter((scope) => scope !== 'offline_access')
  const bad = scopes.find((scope) => !isScopeToken(scope))
  const received = `${describeValue(bad)} for ${operation.method} ${operation.path}`
  const expected = `of tools must be scopes of RFC 6749 section 3.3; received ${received}`
  if (bad !== undefined) throw invalidOption('scopes', `${expected}. Rename it with scopes: (scope) => …`)
  return scopes
}

export function placeOf({ method, path }: OpenApiOperation): string {
  return `#/paths/${path.replaceAll('~', '~0').replaceAll('/', '~1')}/${method.toLowerCase()}`
}
