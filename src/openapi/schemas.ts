import { isOptionsObject } from '../base/options/option-checks.ts'
import type { JsonSchema } from '../mcp/router/schemas/json-schema.ts'
import { isPattern, SCHEMA_LISTS, SCHEMA_MAPS, SCHEMAS } from '../mcp/router/schemas/listed-schema.ts'
import { type Node, type OpenApiDocument, pointerOf } from './document.ts'
import { newName } from './operations.ts'

/** The maximum length of the definitions of one schema as JSON, in characters. Further definitions are left out. */
const MAX_DEFINITIONS = 100_000

/** The keywords that are copied. Others, such as `xml`, `discriminator`, and `x-…`, have no meaning for a client. */
const KEPT = new Set([
  'type',
  'title',
  'description',
  'enum',
  'const',
  'default',
  'examples',
  'deprecated',
  'format',
  'pattern',
  'required',
  'dependentRequired',
  'contentEncoding',
  'contentMediaType',
  ...['multipleOf', 'minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum'],
  ...['minLength', 'maxLength', 'minItems', 'maxItems', 'uniqueItems', 'minContains', 'maxContains'],
  ...['minProperties', 'maxProperties'],
])

/** The formats of JSON Schema. Validators do not know those of OpenAPI, such as `int64` and `password`. */
const FORMATS = new Set([
  ...['date-time', 'date', 'time', 'duration', 'email', 'idn-email', 'hostname', 'idn-hostname', 'ipv4'],
  ...['ipv6', 'uri', 'uri-reference', 'iri', 'iri-reference', 'uri-template', 'uuid', 'json-pointer'],
  ...['relative-json-pointer', 'regex'],
])

/** The keywords that can exclude `null`, apart from `type`. */
const NOT_NULL = ['enum', 'allOf', 'anyOf', 'oneOf', 'not']

interface Definition {
  readonly schema: JsonSchema | boolean
  readonly size: number
  /** The definitions that it refers to. */
  readonly refs: ReadonlySet<string>
}

/** The references that one conversion has found. */
type Refs = Set<string>

/**
 * Converts schemas of a document into self-contained JSON Schema 2020-12. Referenced schemas, also recursive ones, are in `$defs`.
 * `readOnly` properties are left out of inputs, and `writeOnly` properties out of outputs.
 */
export class SchemaConverter {
  readonly #document: OpenApiDocument
  readonly #hidden: 'readOnly' | 'writeOnly'
  readonly #definitions = new Map<string, Definition>()
  readonly #names = new Map<string, string>()
  readonly #taken = new Set<string>()

  constructor(document: OpenApiDocument, side: 'input' | 'output') {
    this.#document = document
    this.#hidden = side === 'input' ? 'readOnly' : 'writeOnly'
  }

  /**
   * Returns the schema of an object with these members.
   * @param required the names of the required members
   */
  object(
    members: Readonly<Record<string, { schema: unknown; description: unknown }>>,
    required: readonly string[],
  ): JsonSchema {
    const refs: Refs = new Set()
    const properties: Record<string, unknown> = {}
    for (const [name, { schema, description }] of Object.entries(members)) {
      const converted = this.#convert(schema ?? {}, refs)
      const isDescribed = typeof description === 'string' && description !== ''
      properties[name] =
        isDescribed && typeof converted === 'object' ? { ...converted, description } : converted
    }
    return {
      type: 'object',
      properties,
      ...(required.length > 0 && { required }),
      additionalProperties: false,
      ...this.#definitionsFor(refs),
    }
  }

  /** One schema. What is only a reference is written out, so that its `type` can be seen: clients of 2025 want an object. */
  schema(schema: unknown): JsonSchema {
    const refs: Refs = new Set()
    const converted = this.#convert(this.#writtenOut(schema), refs)
    return { ...(typeof converted === 'boolean' ? {} : converted), ...this.#definitionsFor(refs) }
  }

  #writtenOut(schema: unknown): unknown {
    const isReference =
      isOptionsObject(schema) && '$ref' in schema && (this.#document.is30 || Object.keys(schema).length === 1)
    return isReference ? (this.#document.resolve(schema) ?? schema) : schema
  }

  /** The definitions reached from `refs`, nearest first, until there are too many; the others allow anything. */
  #definitionsFor(refs: Refs): { $defs?: Record<string, unknown> } {
    if (refs.size === 0) return {}
    const $defs: Record<string, unknown> = {}
    let size = 0
    // A set grows while it is walked.
    const reached = new Set(refs)
    for (const ref of reached) {
      const definition = size > MAX_DEFINITIONS ? undefined : this.#definition(ref)
      $defs[this.#nameOf(ref)] = definition?.schema ?? { $comment: 'left out: the schema is too large' }
      size += definition?.size ?? 0
      for (const next of definition?.refs ?? []) reached.add(next)
    }
    return { $defs }
  }

  #definition(ref: string): Definition {
    const known = this.#definitions.get(ref)
    if (known !== undefined) return known
    const refs: Refs = new Set()
    const schema = this.#convert(this.#document.at(ref), refs)
    const definition = { schema, size: JSON.stringify(schema).length, refs }
    this.#definitions.set(ref, definition)
    return definition
  }

  #nameOf(ref: string): string {
    const last = (pointerOf(ref).at(-1) ?? '').replace(/[^\w.-]/g, '_') || 'schema'
    const name = this.#names.get(ref) ?? newName(last, this.#taken)
    this.#names.set(ref, name)
    return name
  }

  #convert(given: unknown, refs: Refs): JsonSchema | boolean {
    if (typeof given === 'boolean') return given
    if (!isOptionsObject(given)) return {}
    const schema = given as Node
    const made: Record<string, unknown> = {}
    const { $ref } = schema
    if (typeof $ref === 'string' && $ref.startsWith('#/')) {
      refs.add($ref)
      made.$ref = `#/$defs/${this.#nameOf($ref)}`
      // OpenAPI 3.0 ignores the keywords next to a reference.
      if (this.#document.is30) return made
    }
    for (const [keyword, value] of Object.entries(schema)) {
      if (SCHEMA_MAPS.has(keyword)) made[keyword] = this.#convertMap(keyword, value as Node, refs)
      else if (SCHEMA_LISTS.has(keyword) && Array.isArray(value))
        made[keyword] = value.map((one) => this.#convert(one, refs))
      else if (SCHEMAS.has(keyword)) made[keyword] = this.#convert(value, refs)
      else if (KEPT.has(keyword)) made[keyword] = value
    }
    this.#correct(schema, made)
    return this.#document.is30 ? in2020(schema, made) : made
  }

  #convertMap(keyword: string, map: Node, refs: Refs): Record<string, unknown> {
    const members = Object.entries(map)
    const shown = members.filter(([, schema]) => keyword !== 'properties' || !this.#isHidden(schema))
    return Object.fromEntries(shown.map(([name, schema]) => [name, this.#convert(schema, refs)]))
  }

  #isHidden(schema: unknown): boolean {
    return isOptionsObject(schema) && (schema as Node)[this.#hidden] === true
  }

  /** Corrects keywords that OpenAPI 3.0 and 3.1 share. */
  #correct(schema: Node, made: Record<string, unknown>): void {
    const { required, properties, format, pattern, example } = schema
    if (Array.isArray(required) && isOptionsObject(properties)) {
      const shown = required.filter((name) => !this.#isHidden((properties as Node)[name as string]))
      if (shown.length > 0) made.required = shown
      else delete made.required
    }
    if (example !== undefined && made.examples === undefined) made.examples = [example]
    if (!Array.isArray(made.examples)) delete made.examples
    if (format !== undefined && !FORMATS.has(format as string)) delete made.format
    if (format === 'byte') made.contentEncoding = 'base64'
    if (pattern !== undefined && !isPattern(pattern)) delete made.pattern
  }
}

/** Converts `nullable` and the boolean `exclusiveMinimum` and `exclusiveMaximum` of OpenAPI 3.0 to JSON Schema 2020-12. */
function in2020(schema: Node, made: Record<string, unknown>): JsonSchema {
  for (const [bound, exclusive] of [
    ['minimum', 'exclusiveMinimum'],
    ['maximum', 'exclusiveMaximum'],
  ] as const) {
    if (typeof schema[exclusive] !== 'boolean') continue
    delete made[exclusive]
    if (schema[exclusive] === true && typeof schema[bound] === 'number') {
      made[exclusive] = schema[bound]
      delete made[bound]
    }
  }
  if (schema.nullable !== true) return made
  if (typeof made.type !== 'string')
    return NOT_NULL.some((keyword) => keyword in made) ? { anyOf: [made, { type: 'null' }] } : made
  made.type = [made.type, 'null']
  if (Array.isArray(made.enum) && !made.enum.includes(null)) made.enum = [...made.enum, null]
  return made
}
