import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../../base/options/option-checks.ts'
import { problemIn } from '../../wire/schema-issues.ts'
import { type JsonSchema, listedSchema } from './listed-schema.ts'

const { invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

export type { JsonSchema } from './listed-schema.ts'

interface JsonSchemaSource {
  readonly jsonSchema?: Record<
    'input' | 'output',
    (options: { target: string; libraryOptions?: object }) => JsonSchema
  >
}

/**
 * Returns the JSON Schema of a Standard Schema, for `tools/list`.
 * @throws {KitMcpConfigError} if `schema` is not a Standard Schema, or cannot be converted into a JSON Schema.
 */
export function jsonSchemaOf(option: string, schema: unknown, side: 'input' | 'output'): JsonSchema {
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
  const flagged = new Set<string>()
  let json: JsonSchema
  try {
    json = convert({ target: 'draft-2020-12', ...(standard.vendor === 'zod' && zodOptions(flagged)) })
    if (standard.vendor === 'arktype') collectFlagged((schema as { json?: unknown }).json, flagged)
    json = listedSchema(json, flagged, side === 'output' && standard.vendor !== 'mcp-gatekit')
  } catch (cause) {
    throw invalidOption(
      option,
      `cannot be converted into a JSON Schema that clients can use: ${cause instanceof Error ? cause.message : cause}`,
    )
  }
  return json
}

/** Like `jsonSchemaOf`, for a schema that must describe an object. */
export function objectSchemaOf(option: string, schema: unknown, side: 'input' | 'output'): JsonSchema {
  const json = jsonSchemaOf(option, schema, side)
  if (json.type === undefined || json.type === 'object') return { type: 'object', ...json }
  throw invalidOption(
    option,
    `must describe an object, not '${String(json.type)}'. Wrap it in z.object({ … })`,
  )
}

/** The rule of the option `input`: its JSON Schema, or that of an object without properties. */
export function inputSchemaOf(option: string, input: unknown): JsonSchema {
  return input === undefined ? { type: 'object', properties: {} } : objectSchemaOf(option, input, 'input')
}

/** The flags that change which texts a pattern accepts. */
const MEANINGFUL_FLAGS = /[imsvy]/

/** A schema of zod, or one of its checks. */
interface ZodNode {
  readonly _zod: { readonly def: { readonly pattern?: unknown; readonly checks?: readonly ZodNode[] } }
}

/** Returns options with which zod shows the regular expressions behind its patterns. */
function zodOptions(flagged: Set<string>): { readonly libraryOptions: object } {
  const override = ({ zodSchema }: { readonly zodSchema: ZodNode }): void => {
    for (const { _zod } of [zodSchema, ...(zodSchema._zod.def.checks ?? [])]) {
      const { pattern } = _zod.def
      if (pattern instanceof RegExp && MEANINGFUL_FLAGS.test(pattern.flags)) flagged.add(pattern.source)
    }
  }
  return { libraryOptions: { override } }
}

/** Finds the patterns with flags in the description of a schema of arktype. */
function collectFlagged(json: unknown, flagged: Set<string>): void {
  JSON.stringify(json, (_key, value) => {
    if (MEANINGFUL_FLAGS.test(String(value?.flags ?? ''))) flagged.add(String(value.rule))
    return value
  })
}

/** The validated value, or a description of its problems in one line. */
export type Validation = { readonly value: unknown } | { readonly problem: string }

/** Validates a value. The problem names paths and rules in the words of the schema's library. */
export async function validate(schema: StandardSchemaV1, value: unknown): Promise<Validation> {
  const result = await schema['~standard'].validate(value)
  return result.issues === undefined ? { value: result.value } : { problem: problemIn(result.issues) }
}
