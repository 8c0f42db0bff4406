import type { CallToolResult, Tool, ToolAnnotations } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../options/option-checks.ts'
import type { KitContext } from './context.ts'
import {
  checkDefinition,
  commonMembers,
  DEFINITION_OPTIONS,
  type DefinitionConfig,
  objectCopy,
  scopesOf,
} from './definition.ts'
import type { InputRequired } from './input-required.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'
import { declaresHeaders } from './param-headers.ts'

const { checkFunction, invalidOption } = optionChecksOf('KitMcpRouter')

/** What a tool is, beside its handler. */
export interface ToolConfig<Input, Output> extends DefinitionConfig {
  /** What the tool does, for the model that chooses among tools. */
  readonly description: string
  /** Standard Schema of the arguments, able to give a JSON Schema. Default: no arguments. */
  readonly input?: Input
  /** Standard Schema of the result; what the handler returns is checked and sent as `structuredContent`. */
  readonly output?: Output
  /** Hints about what a call does, such as `readOnlyHint`, which clients may ignore. */
  readonly annotations?: ToolAnnotations
}

/** What a handler gets of a schema's input: the parsed value, `{}` where there is no schema. */
export type ArgsOf<Input> = Input extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Input>
  : Record<string, never>
/** A whole MCP result, as a handler may return it. An interface, so that compilers and editors tell it by its name. */
export interface ToolResult extends CallToolResult {}

/** What the handler of a tool may return, whose `output` takes `Given`. */
type ReturnOf<Given> = Given | ToolResult | InputRequired | Promise<Given | ToolResult | InputRequired>

/**
 * The handler of a tool whose `output` takes `Given`. Conditional, though always true: compilers then know `Given` when
 * they look at the handler, and take the texts in what it returns for the literals that they are.
 */
export type HandlerGiving<Given, Args, Context> = [Given] extends [infer Known]
  ? (args: Args, context: Context) => ReturnOf<Known>
  : never

type GivenOf<Output> = Output extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Output> : unknown

/**
 * Runs a tool. Returns a string, any JSON value, a whole MCP result, or what `context.inputRequired()` gives.
 * The text of a thrown `KitToolError` is shown to the client, that of any other error is not.
 */
export type ToolHandler<App, Input, Output, User = any> = (
  args: ArgsOf<Input>,
  context: KitContext<App, User>,
) => ReturnOf<GivenOf<Output>>

/** A tool with everything about it that can be computed before a request. */
export interface ToolEntry {
  readonly definition: Tool
  readonly scopes: readonly string[]
  readonly input: StandardSchemaV1 | undefined
  readonly output: StandardSchemaV1 | undefined
  readonly outputJsonSchema: JsonSchema | undefined
  /** Whether arguments are repeated in `Mcp-Param-*` headers (2026-07-28). */
  readonly declaresHeaders: boolean
  readonly handler: (args: unknown, context: KitContext) => unknown
}

const TOOL_OPTIONS = [...DEFINITION_OPTIONS, 'description', 'input', 'output', 'annotations']

/** @throws {KitMcpConfigError} naming what is wrong. */
export function toolEntry(
  name: string,
  config: ToolConfig<StandardSchemaV1 | undefined, StandardSchemaV1 | undefined>,
  handler: ToolEntry['handler'],
): ToolEntry {
  const { description, input, output, annotations } = checkDefinition(
    'tool',
    name,
    config,
    TOOL_OPTIONS,
    'description',
  )
  const owner = `tool '${name}'`
  checkFunction('handler', handler, `${owner} needs a function (args, context) => result`)
  if (typeof description !== 'string' || description === '') {
    throw invalidOption(
      'description',
      `of ${owner} must say what the tool does`,
      description,
      'models choose by it',
    )
  }
  const outputJsonSchema =
    output === undefined ? undefined : jsonSchemaOf(`output of ${owner}`, output, 'output')
  const inputSchema =
    input === undefined
      ? { type: 'object', properties: {} }
      : jsonSchemaOf(`input of ${owner}`, input, 'input')
  const definition = Object.freeze({
    name,
    ...commonMembers(owner, config),
    description,
    inputSchema,
    ...(outputJsonSchema !== undefined && { outputSchema: outputJsonSchema }),
    ...(annotations !== undefined && { annotations: objectCopy(`annotations of ${owner}`, annotations) }),
  }) as Tool
  return {
    definition,
    scopes: scopesOf(owner, config),
    input,
    output,
    outputJsonSchema,
    declaresHeaders: declaresHeaders(`input of ${owner}`, inputSchema),
    handler,
  }
}
