import { isRecord } from '../../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../../base/try-or-undefined.ts'

/** A JSON Schema document. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** The keywords whose value has schemas by name. */
export const SCHEMA_MAPS: ReadonlySet<string> = new Set([
  'properties',
  'patternProperties',
  'dependentSchemas',
])
/** The keywords whose value is a list of schemas. */
export const SCHEMA_LISTS: ReadonlySet<string> = new Set(['allOf', 'anyOf', 'oneOf', 'prefixItems'])
/** The keywords whose value is a schema. */
export const SCHEMAS: ReadonlySet<string> = new Set([
  ...['items', 'additionalProperties', 'not', 'if', 'then', 'else', 'contains', 'propertyNames'],
  ...['unevaluatedItems', 'unevaluatedProperties'],
])

const MAPS = new Set([...SCHEMA_MAPS, '$defs', 'definitions'])
const TYPES = new Set<unknown>(['array', 'boolean', 'integer', 'null', 'number', 'object', 'string'])

/** Finds what matches one unit of UTF-16, or one character if a regular expression has the flag `u`. */
const HALVES = /^(?:\\[^DSW]|[^\\])*?(?:\\[DSW]|\.|\[\^)/s

/** Returns `true` for a regular expression that clients can compile. They use the flag `u`. */
export function isPattern(pattern: unknown): pattern is string {
  return typeof pattern === 'string' && tryOrUndefined(() => new RegExp(pattern, 'u')) !== undefined
}

/**
 * Returns a JSON Schema that every client can compile, and that rejects no value that the validation accepts.
 * @param flagged the patterns whose meaning depends on flags that a JSON Schema cannot have
 * @param relaxes `true` for the schema of an output that is not validated with this JSON Schema
 * @throws {TypeError} for a `$ref` without a target, and for a `type` that does not exist.
 */
export function listedSchema(root: JsonSchema, flagged: ReadonlySet<string>, relaxes: boolean): JsonSchema {
  const text = JSON.stringify(root)
  const names = (keyword: string, name: unknown) =>
    text.includes(`"${keyword}":${JSON.stringify(name)}`) || undefined

  /** Returns the target of a reference; `true` for one that is not a pointer, and undefined if there is none. */
  function target(ref: unknown): unknown {
    const [base, pointer = ''] = String(ref).split('#')
    if (base !== '') return names('$id', base)
    if (!pointer.startsWith('/')) return pointer === '' ? root : names('$anchor', pointer)
    const parts = tryOrUndefined(() => decodeURIComponent(pointer).slice(1).split('/'))
    return parts?.reduce<unknown>((found, part) => {
      const name = part.replaceAll('~1', '/').replaceAll('~0', '~')
      return Object.hasOwn(Object(found), name) ? (found as JsonSchema)[name] : undefined
    }, root)
  }

  /** Returns `true` if a schema does not reject the absence of a value. */
  function acceptsAnything(schema: unknown, levels = 16): boolean {
    if (!isRecord(schema) || levels === 0) return schema !== false
    const accepts = (one: unknown): boolean => acceptsAnything(one, levels - 1)
    const { oneOf = [true], anyOf = oneOf, allOf = [], $ref } = schema as Record<string, unknown[]>
    if (['type', 'enum', 'const', 'not'].some((keyword) => keyword in schema)) return false
    return ($ref === undefined || accepts(target($ref))) && anyOf.some(accepts) && allOf.every(accepts)
  }

  const isUsable = (pattern: unknown): boolean => isPattern(pattern) && !flagged.has(pattern)

  function listed(schema: unknown): unknown {
    if (!isRecord(schema)) return schema
    const { type, $ref } = schema
    if (type !== undefined && [type].flat().some((one) => !TYPES.has(one)))
      throw new TypeError(`its type ${JSON.stringify(type)} does not exist`)
    if ($ref !== undefined && target($ref) === undefined)
      throw new TypeError(`its $ref ${JSON.stringify($ref)} has no target`)
    const made: Record<string, unknown> = Object.fromEntries(
      // Schemas that accept more overlap.
      Object.entries(schema).map(([keyword, value]) => [
        relaxes && keyword === 'oneOf' ? 'anyOf' : keyword,
        listedValue(keyword, value),
      ]),
    )
    if ('pattern' in made && !isUsable(made.pattern)) delete made.pattern
    if (relaxes) relax(made)
    return made
  }

  function listedValue(keyword: string, value: unknown): unknown {
    if (SCHEMAS.has(keyword)) return listed(value)
    if (SCHEMA_LISTS.has(keyword) && Array.isArray(value)) return value.map(listed)
    if (!MAPS.has(keyword) || !isRecord(value)) return value
    const kept = Object.entries(value).filter(([name]) => keyword !== 'patternProperties' || isUsable(name))
    return Object.fromEntries(kept.map(([name, one]) => [name, listed(one)]))
  }

  /** Removes what validators of clients read in another way than the libraries of schemas. */
  function relax(made: Record<string, unknown>): void {
    const { required, properties, additionalProperties: others = false, multipleOf, format } = made
    if (Array.isArray(required)) {
      const kept = required.filter((name) => !acceptsAnything(Object(properties)[name] ?? others))
      made.required = kept
      if (kept.length === 0) delete made.required
    }
    // Validators divide, and get a remainder for 0.07 and 0.01.
    if (!Number.isInteger(multipleOf ?? 1)) delete made.multipleOf
    // Validators know other formats, or have other rules for them.
    delete made.format
    // Without the flag `u`, these match half of a character. The pattern of IPv6 in libraries is only a part of their rule.
    if (format === 'ipv6' || HALVES.test(String(made.pattern))) delete made.pattern
    // Validators of older drafts read `items` beside `prefixItems` in another way.
    if ('prefixItems' in made)
      for (const keyword of ['prefixItems', 'items', 'unevaluatedItems']) delete made[keyword]
  }

  return listed(root) as JsonSchema
}
