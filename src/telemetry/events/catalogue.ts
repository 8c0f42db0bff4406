import type { TelemetryEventSchema } from './schema.ts'

/** A JSON Schema document, draft 2020-12. */
export type TelemetryJsonSchema = Readonly<Record<string, unknown>>

/** One event of a namespace. */
export interface TelemetryCatalogueEvent {
  /** The full key, such as `billing.invoice.paid`. */
  readonly key: string
  /** The namespace, such as `billing`. */
  readonly namespace: string
  /** The short key, such as `invoice.paid`. */
  readonly name: string
  /** The JSON Schema of the attributes. Missing if the schema cannot be converted. */
  readonly jsonSchema?: TelemetryJsonSchema
}

/** The events of a namespace. */
export interface TelemetryEventCatalogue {
  /** The namespace, such as `billing`. */
  readonly namespace: string
  /** The events, sorted by key. */
  readonly events: readonly TelemetryCatalogueEvent[]
  /** Returns a page of Markdown with a heading for each event and a table of its attributes. It ends with a line break. */
  toMarkdown(): string
}

export function catalogueOf(
  namespace: string,
  schemas: ReadonlyMap<string, TelemetryEventSchema>,
): TelemetryEventCatalogue {
  const events = Array.from(schemas, ([name, schema]) => {
    const jsonSchema = jsonSchemaOf(schema)
    const event = { key: `${namespace}.${name}`, namespace, name }
    return Object.freeze(jsonSchema === undefined ? event : { ...event, jsonSchema })
  }).sort((a, b) => (a.key < b.key ? -1 : 1))
  return Object.freeze({
    namespace,
    events: Object.freeze(events),
    toMarkdown: () => markdownOf(namespace, events),
  })
}

/** Returns `undefined` if the library does not support `~standard.jsonSchema`, or cannot convert the schema, such as a `Date`. */
function jsonSchemaOf(schema: TelemetryEventSchema): TelemetryJsonSchema | undefined {
  const { jsonSchema } = schema['~standard'] as {
    readonly jsonSchema?: { input?(options: { target: string }): unknown }
  }
  try {
    const json = jsonSchema?.input?.({ target: 'draft-2020-12' })
    return isSchema(json) ? json : undefined
  } catch {
    return undefined
  }
}

function markdownOf(namespace: string, events: readonly TelemetryCatalogueEvent[]): string {
  const sections = events.map(({ key, jsonSchema }) => {
    const lines = [`## ${text(key)}`]
    if (jsonSchema === undefined)
      return [...lines, 'Its schema does not describe its attributes.'].join('\n\n')
    if (typeof jsonSchema.description === 'string') lines.push(text(jsonSchema.description))
    const rows = attributeRows(jsonSchema, '', new Set())
    lines.push(
      rows.length === 0
        ? 'No attributes are declared.'
        : ['| Attribute | Type | Required | Description |', '| --- | --- | --- | --- |', ...rows].join('\n'),
    )
    return lines.join('\n\n')
  })
  return `${[`# Events of ${text(namespace)}`, ...sections].join('\n\n')}\n`
}

/** Returns one row for each property. The properties of an object follow its row. */
function attributeRows(schema: TelemetryJsonSchema, prefix: string, above: ReadonlySet<unknown>): string[] {
  if (!isSchema(schema.properties) || above.has(schema)) return []
  const required = Array.isArray(schema.required) ? schema.required : []
  return Object.entries(schema.properties).flatMap(([name, property]) => {
    const path = prefix + name
    if (!isSchema(property)) return [row(path, 'any', required.includes(name), '')]
    const { description } = property
    return [
      row(
        path,
        typeText(property),
        required.includes(name),
        typeof description === 'string' ? description : '',
      ),
      ...attributeRows(property, `${path}.`, new Set(above).add(schema)),
    ]
  })
}

function row(path: string, type: string, required: boolean, description: string): string {
  return `| ${code(path)} | ${text(type)} | ${required ? 'yes' : 'no'} | ${text(description)} |`
}

/** Returns the type in words: `string`, `integer or null`, `array of number`, `"a" or "b"`. */
function typeText(schema: unknown): string {
  if (!isSchema(schema)) return 'any'
  const { type, enum: values, const: constant, anyOf, oneOf, items, format, $ref } = schema
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(' or ')
  if (constant !== undefined) return JSON.stringify(constant)
  const options = anyOf ?? oneOf
  if (Array.isArray(options)) return [...new Set(options.map(typeText))].join(' or ')
  if (typeof $ref === 'string') return $ref.slice($ref.lastIndexOf('/') + 1)
  if (type === 'array') return `array of ${typeText(items)}`
  if (Array.isArray(type)) return type.join(' or ')
  if (typeof type !== 'string') return 'any'
  return typeof format === 'string' ? `${type} (${format})` : type
}

/** Returns a string in one line, with the special characters of Markdown escaped. */
function text(value: string): string {
  return value.replace(/\s+/g, ' ').replace(/[\\`*_[\]<>|&]/g, '\\$&')
}

function code(value: string): string {
  return /[`\s]/.test(value) ? text(value) : `\`${value.replaceAll('|', '\\|')}\``
}

function isSchema(value: unknown): value is TelemetryJsonSchema {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
