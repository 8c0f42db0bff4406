import { fromJsonSchema } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { JsonSchema } from './json-schema.ts'

/**
 * Returns a JSON Schema (2020-12) as a Standard Schema. The validator is compiled when the first value is validated, so that
 * tools that are not called cost nothing. A schema that cannot be compiled accepts every value.
 */
export function lazySchema(schema: JsonSchema): StandardSchemaV1<unknown, unknown> {
  let compiled: StandardSchemaV1<unknown, unknown> | undefined
  const standard = {
    version: 1 as const,
    vendor: 'mcp-gatekit',
    jsonSchema: { input: () => schema, output: () => schema },
    validate(value: unknown) {
      compiled ??= compile(schema)
      return compiled['~standard'].validate(value)
    },
  }
  return { '~standard': standard }
}

const anything: StandardSchemaV1<unknown, unknown> = {
  '~standard': { version: 1, vendor: 'mcp-gatekit', validate: (value) => ({ value }) },
}

function compile(schema: JsonSchema): StandardSchemaV1<unknown, unknown> {
  try {
    return fromJsonSchema(schema as Parameters<typeof fromJsonSchema>[0])
  } catch {
    return anything
  }
}
