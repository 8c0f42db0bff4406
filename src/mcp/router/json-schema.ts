import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../oauth/option-checks.ts'
import { shortened } from '../shortened.ts'

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

/** How many issues of a validation are reported. */
const MAX_ISSUES = 20

/** How long a report may be. It and the words around it, such as a tool's name, have at most 4,000 characters together. */
const MAX_REPORT = 3_800

/** How long one issue in it may be. */
const MAX_ISSUE = 1_000

/**
 * Reports issues in one line, by their paths and by the rules as the schema's library words them. Reports only the first
 * issues, shortens long ones, and counts the rest: `name: Required; and 1,480 more`.
 */
export function problemIn(issues: readonly StandardSchemaV1.Issue[]): string {
  const reported: string[] = []
  let length = 0
  for (const issue of issues) {
    if (reported.length === MAX_ISSUES) break
    const text = issueText(issue)
    if (length + text.length > MAX_REPORT - MAX_COUNT.length) break
    reported.push(text)
    length += text.length + SEPARATOR.length
  }
  const more = issues.length - reported.length
  if (more > 0) reported.push(`and ${more.toLocaleString('en-US')} more`)
  return reported.join(SEPARATOR)
}

const SEPARATOR = '; '
/** The longest count of further issues. */
const MAX_COUNT = `${SEPARATOR}and ${Number.MAX_SAFE_INTEGER.toLocaleString('en-US')} more`

function issueText({ message, path = [] }: StandardSchemaV1.Issue): string {
  let at = ''
  for (const segment of path) {
    if (at.length > MAX_ISSUE) break
    const key = String(typeof segment === 'object' ? segment.key : segment)
    at += at === '' ? key.slice(0, MAX_ISSUE) : `.${key.slice(0, MAX_ISSUE)}`
  }
  return shortened(at === '' ? message : `${shortened(at, MAX_ISSUE / 2)}: ${message}`, MAX_ISSUE)
}
