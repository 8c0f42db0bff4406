import querystring from 'node:querystring'
import { isRecord } from '../../src/options/value-kinds.ts'
import { memberOf } from './json-object.ts'
import { quoteValue } from './quote.ts'

const TYPES: readonly unknown[] = ['string', 'number', 'integer', 'boolean', 'object', 'array', 'null']

const isSchema = (value: unknown): boolean => typeof value === 'boolean' || isRecord(value)

/** The values that keywords can have. Clients cannot compile a schema with other ones. */
const RULES: readonly (readonly [
  keywords: RegExp,
  kind: string,
  isRight: (value: unknown, root: unknown) => boolean,
])[] = [
  [/^(?:\$ref|pattern|format)$/, 'a string', (value) => typeof value === 'string'],
  [/^(?:multipleOf|exclusiveM..imum|m..(?:imum|Length|Items|Properties))$/, 'a number', Number.isFinite],
  [/^(?:required|allOf|anyOf|oneOf)$/, 'an array', Array.isArray],
  [/^(?:additionalProperties|not|if|then|else|contains|propertyNames)$/, 'a schema', isSchema],
  [/^enum$/, 'an array with a value', (value) => Array.isArray(value) && value.length > 0],
  [/^(?:properties|patternProperties)$/, 'an object', isRecord],
  [/^type$/, 'a JSON type', (value) => [value].flat().every((type) => TYPES.includes(type))],
  [/^\$ref$/, 'a part of the schema', (value, root) => targetOf(root, value as string) !== undefined],
  [/^pattern$/, 'a regular expression with the flag u', isPattern],
  [/^patternProperties$/, 'patterns with the flag u', (value) => Object.keys(Object(value)).every(isPattern)],
]

/** The keywords that contain a schema or a list of schemas. */
const SCHEMAS =
  /^(?:items|prefixItems|allOf|anyOf|oneOf|additionalProperties|not|if|then|else|contains|propertyNames)$/

/** The keywords that contain schemas by name. */
const MAPS = /^(?:properties|patternProperties|dependentSchemas)$/

/**
 * Returns the reasons why clients cannot compile a JSON Schema, each with the keyword and its place: values of another kind,
 * unknown types, patterns that are not regular expressions with the flag `u`, and references without a target. Ignores
 * definitions to which no reference leads.
 */
export function schemaProblems(root: unknown): readonly string[] {
  const problems: string[] = []
  const waiting: (readonly [schema: unknown, at: string])[] = [[root, '#']]
  const seen = new Set<unknown>()
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    const [schema, at] = next
    // References in a part with a name of its own are relative to that part.
    if (!isRecord(schema) || seen.has(schema) || (schema !== root && schema.$id !== undefined)) continue
    seen.add(schema)
    for (const [keyword, value] of Object.entries(schema)) {
      const broken = RULES.find(([keywords, , isRight]) => keywords.test(keyword) && !isRight(value, root))
      if (broken !== undefined)
        problems.push(`${keyword} at ${at} is ${quoteValue(value)}, expected ${broken[1]}`)
      else if (keyword === '$ref') waiting.push([targetOf(root, value as string), value as string])
      else if (SCHEMAS.test(keyword))
        for (const one of [value].flat()) waiting.push([one, `${at}/${keyword}`])
      else if (MAPS.test(keyword))
        for (const [name, one] of Object.entries(Object(value)))
          waiting.push([one, `${at}/${keyword}/${name}`])
    }
  }
  return problems
}

function isPattern(pattern: unknown): boolean {
  try {
    return new RegExp(pattern as string, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** Returns the target of a reference, `undefined` if there is none, or `true` if it is not a path in the schema. */
function targetOf(root: unknown, ref: string): unknown {
  if (ref === '#') return root
  // Only definitions can have names. The schemas of JSON Schema itself are known.
  const isNamed = ['$defs', 'definitions'].some((name) => memberOf(root, name) !== undefined)
  if (!ref.startsWith('#/')) return isNamed || /^https?:\/\/json-schema\.org\//.test(ref) || undefined
  const parts = querystring.unescape(ref.slice(2)).split('/')
  return parts.reduce((at, part) => memberOf(at, part.replaceAll('~1', '/').replaceAll('~0', '~')), root)
}
