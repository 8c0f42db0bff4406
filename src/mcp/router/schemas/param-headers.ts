import { optionChecksOf } from '../../../base/options/option-checks.ts'
import { isObject } from '../../../base/options/value-kinds.ts'
import type { JsonSchema } from './json-schema.ts'

const { invalidOption } = optionChecksOf('KitMcpRouter')

const KEYWORD = 'x-mcp-header'
/** A token (RFC 9110 §5.6.2). */
const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/
const TYPES: readonly unknown[] = ['string', 'integer', 'boolean']
/** The keywords whose value is data and not a schema. */
const DATA: readonly string[] = ['default', 'examples', 'enum', 'const']

/**
 * Returns `true` if clients of 2026-07-28 repeat arguments of this input in `Mcp-Param-*` headers, because properties have
 * the keyword `x-mcp-header`. The SDK compares the headers with the arguments.
 * @throws {KitMcpConfigError} if the protocol does not allow the declaration. Clients would reject the tool.
 */
export function declaresHeaders(option: string, schema: JsonSchema): boolean {
  const headers = new Set<string>()
  visit(schema, '', true)
  return headers.size > 0

  function visit(node: unknown, path: string, reachable: boolean): void {
    if (!isObject(node)) return
    const { [KEYWORD]: header, type } = node as Readonly<Record<string, unknown>>
    if (header !== undefined) {
      const problem = problemOf(header, type, path, reachable)
      if (problem !== undefined) throw invalidOption(option, problem)
      headers.add(String(header).toLowerCase())
    }
    for (const [key, child] of Object.entries(node)) {
      if (key !== 'properties') {
        if (!DATA.includes(key)) visit(child, path, false)
        continue
      }
      for (const [name, property] of Object.entries((child ?? {}) as object))
        visit(property, path === '' ? name : `${path}.${name}`, reachable)
    }
  }

  function problemOf(header: unknown, type: unknown, path: string, reachable: boolean): string | undefined {
    if (!reachable || path === '')
      return `must have ${KEYWORD} only on properties, not in arrays, unions, or definitions`
    if (typeof header !== 'string' || !TOKEN.test(header))
      return `has an ${KEYWORD} at '${path}' that is not a header name`
    if (!TYPES.includes(type))
      return `has an ${KEYWORD} at '${path}', which must be a string, an integer, or a boolean`
    if (!headers.has(header.toLowerCase())) return undefined
    return `has ${KEYWORD} '${header}' twice. Use a different header for each property`
  }
}
