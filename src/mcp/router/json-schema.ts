import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../options/option-checks.ts'
import { problemIn } from '../wire/schema-issues.ts'

const { invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

/** A JSON Schema document. */
export type JsonSchema = { readonly [keyword: string]: unknown }

interface JsonSchemaSource {
  readonly jsonSchema?: Record<'input' | 'output', (options: { target: string }) => JsonSchema>
}

/**
 * Returns the JSON Schema of a Standard Schema, for `tools/list`. MCP requires that an input is an object.
 * @throws {KitMcpConfigError} if `schema` is not a Standard Schema, or cannot be converted into a JSON Schema.
 */
export function jsonSchemaOf(option: string, schema: StandardSchemaV1, side: 'input' | 'output'): JsonSchema {
  const standard = (schema as Partial<StandardSchemaV1> | undefined)?.['~standard']
  if (typeof standard?.validate !== 'function') {
    throw invalidKind(option, 'must be a Standard Schema, such as z.object({ … }) of zod 4', schema)
  }
  const convert = (standard as JsonSchemaSource).jsonSchema?.[side]
  if (convert === undefined) {
    throw invalidOption(
      option,
      `must be a schema that provides its JSON Schema (~standard.jsonSchema). This version of '${standard.vendor}' does not; zod 4.2 and later do`,
    )
  }
  let json: JsonSchema
  try {
    json = convert({ target: 'draft-2020-12' })
  } catch (cause) {
    throw invalidOption(
      option,
      `cannot be converted into a JSON Schema: ${cause instanceof Error ? cause.message : cause}`,
    )
  }
  if (side === 'input' && json.type !== undefined && json.type !== 'object') {
    throw invalidOption(
      option,
      `must describe an object, not '${String(json.type)}'. Wrap it in z.object({ … })`,
    )
  }
  return side === 'input' ? { type: 'object', ...json } : json
}

/** The validated value, or a description of its problems in one line. */
export type Validation = { readonly value: unknown } | { readonly problem: string }

/** Validates a value. The problem names paths and rules in the words of the schema's library. */
export async function validate(schema: StandardSchemaV1, value: unknown): Promise<Validation> {
  const pending = schema['~standard'].validate(value)
  const result = pending instanceof Promise ? await pending : pending
  return result.issues === undefined ? { value: result.value } : { problem: problemIn(result.issues) }
}
