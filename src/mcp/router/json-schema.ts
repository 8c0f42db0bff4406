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
 * The JSON Schema of a Standard Schema, for `tools/list`. MCP wants an object at the root of an input.
 * @throws {KitMcpConfigError} when `schema` is no Standard Schema, or cannot give a JSON Schema.
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
      `must be a schema that can give its JSON Schema (~standard.jsonSchema): '${standard.vendor}' in this version cannot; zod from 4.2 can`,
    )
  }
  let json: JsonSchema
  try {
    json = convert({ target: 'draft-2020-12' })
  } catch (cause) {
    throw invalidOption(
      option,
      `cannot be written as a JSON Schema: ${cause instanceof Error ? cause.message : cause}`,
    )
  }
  if (side === 'input' && json.type !== undefined && json.type !== 'object') {
    throw invalidOption(
      option,
      `must describe an object, not '${String(json.type)}': wrap it in z.object({ … })`,
    )
  }
  return side === 'input' ? { type: 'object', ...json } : json
}

/** The validated value, or what is wrong with it in one line. */
export type Validation = { readonly value: unknown } | { readonly problem: string }

/** Validates `value`; the problem names paths and rules, as the schema's library words them. */
export async function validate(schema: StandardSchemaV1, value: unknown): Promise<Validation> {
  const pending = schema['~standard'].validate(value)
  const result = pending instanceof Promise ? await pending : pending
  return result.issues === undefined ? { value: result.value } : { problem: problemIn(result.issues) }
}
