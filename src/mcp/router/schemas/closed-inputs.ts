import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { OptionChecks } from '../../../base/options/option-checks.ts'
import { isRecord } from '../../../base/options/value-kinds.ts'
import { type RouterTable, withTools } from '../router-table.ts'
import type { ToolEntry } from '../tool.ts'
import type { JsonSchema } from './json-schema.ts'

/** The values of the option `unknownArguments`. */
export const UNKNOWN_ARGUMENTS = ['ignore', 'reject'] as const

/** The keywords with which a schema itself decides about members that `properties` does not name. */
const OWN_RULES = ['additionalProperties', 'unevaluatedProperties', 'patternProperties']

/** The keywords that may name members in other places than `properties`. */
const OTHER_NAMES = [
  'anyOf',
  'allOf',
  'oneOf',
  '$ref',
  '$dynamicRef',
  'if',
  'then',
  'else',
  'dependentSchemas',
]

/**
 * Returns a table whose tools reject arguments that their schemas do not name, and say so in lists. A schema that decides about
 * such members itself stays as it is. Returns `table` itself for `ignore`.
 * @throws {KitMcpConfigError} if the names cannot be read, because a schema is composed of several.
 */
export function tableWithInputs(
  table: RouterTable,
  unknown: (typeof UNKNOWN_ARGUMENTS)[number],
  checks: OptionChecks,
): RouterTable {
  return unknown === 'ignore' ? table : withTools(table, (tool) => withClosedInput(tool, checks))
}

function withClosedInput(tool: ToolEntry, checks: OptionChecks): ToolEntry {
  const schema: JsonSchema = tool.definition.inputSchema
  if (OWN_RULES.some((keyword) => keyword in schema)) return tool
  const composed = OTHER_NAMES.find((keyword) => keyword in schema)
  if (composed !== undefined)
    throw checks.unusableOption(
      'unknownArguments',
      `must not be 'reject' for tool '${tool.definition.name}', whose input has ${composed} at the top level`,
      'Describe the arguments with one object schema, or set additionalProperties at its top level.',
    )
  const { properties } = schema
  const inputSchema = { ...tool.definition.inputSchema, additionalProperties: false }
  return {
    ...tool,
    definition: Object.freeze({ ...tool.definition, inputSchema }),
    input: closedSchema(tool.input, new Set(isRecord(properties) ? Object.keys(properties) : [])),
  }
}

/** Returns a schema that permits only members with the given names, and that validates them with `inner`. */
function closedSchema(inner: StandardSchemaV1 | undefined, names: ReadonlySet<string>): StandardSchemaV1 {
  const standard: StandardSchemaV1['~standard'] = {
    version: 1,
    vendor: 'mcp-gatekit',
    async validate(value) {
      const unknown = isRecord(value) ? Object.keys(value).filter((name) => !names.has(name)) : []
      const result = await (inner?.['~standard'].validate(value) ?? { value: {} })
      if (unknown.length === 0) return result
      const issues = unknown.map((name) => ({ message: 'Unknown argument', path: [name] }))
      return { issues: [...issues, ...(result.issues ?? [])] }
    },
  }
  return { '~standard': standard }
}
