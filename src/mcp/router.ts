import type { CallToolResult, Tool, ToolAnnotations } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import {
  checkFunction,
  checkKnownOptions,
  checkRequiredScopes,
  invalidOption,
  isOptionsObject,
} from '../oauth/option-checks.ts'
import { unionOfScopes } from '../oauth/scope.ts'
import type { KitContext } from './context.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'

/** What a tool is, beside its handler. */
export interface ToolConfig<Input, Output> {
  readonly title?: string
  /** What the tool does, for the model that chooses among tools. */
  readonly description: string
  /** Standard Schema of the arguments, able to give a JSON Schema. Default: no arguments. */
  readonly input?: Input
  /** Standard Schema of the result; what the handler returns is checked and sent as `structuredContent`. */
  readonly output?: Output
  /** Scopes this tool needs beside those of the endpoint. Without them the call is answered 403 (step-up). */
  readonly scopes?: readonly string[]
  readonly annotations?: ToolAnnotations
}

type ArgsOf<Input> = Input extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Input>
  : Record<string, never>
type ResultOf<Output> = Output extends StandardSchemaV1
  ? StandardSchemaV1.InferInput<Output> | CallToolResult
  : unknown

/**
 * Runs a tool. Returns a string, any JSON value, or a whole MCP result. The text of a thrown
 * `KitToolError` is shown to the client, that of any other error is not.
 */
export type ToolHandler<App, Input, Output> = (
  args: ArgsOf<Input>,
  context: KitContext<App>,
) => ResultOf<Output> | Promise<ResultOf<Output>>

/** A tool with everything about it that can be computed before a request. */
export interface ToolEntry {
  readonly definition: Tool
  readonly scopes: readonly string[]
  readonly input: StandardSchemaV1 | undefined
  readonly output: StandardSchemaV1 | undefined
  readonly outputJsonSchema: JsonSchema | undefined
  readonly handler: (args: unknown, context: KitContext) => unknown
}

/** What `.context()` takes. */
export type AppContextFactory<App> = (input: { readonly request: Request }) => App | Promise<App>

/** The router as the adapter reads it: made once. */
export interface RouterTable {
  readonly makeContext: AppContextFactory<unknown> | undefined
  readonly tools: ReadonlyMap<string, ToolEntry>
  readonly definitions: readonly Tool[]
  /** Every scope that any tool names. */
  readonly scopes: readonly string[]
}

/** Reads the table of a router; set by the class, which alone can see inside. */
let readTable: (router: KitMcpRouter<any>) => RouterTable

const TOOL_NAME = /^[A-Za-z0-9_.-]{1,128}$/
const NO_SCOPES: readonly string[] = Object.freeze([])
const TOOL_OPTIONS = ['title', 'description', 'input', 'output', 'scopes', 'annotations'] as const

/** Tools in the order they were added, shared by all routers of one chain; `size` says how many are this one's. */
interface SharedTools {
  readonly entries: ToolEntry[]
  readonly indexes: Map<string, number>
}

interface RouterProps {
  readonly makeContext: AppContextFactory<unknown> | undefined
  readonly tools: SharedTools
  readonly size: number
}

/**
 * The typed router of an MCP server: tools and the scopes they need. Immutable, every method returns a
 * new router. JSON Schemas, scopes and checks are computed here, so that the number of tools does not
 * change the cost of a call.
 */
export class KitMcpRouter<App = unknown> {
  readonly #props: RouterProps
  #table: RouterTable | undefined

  private constructor(props: RouterProps) {
    this.#props = props
  }

  /** An empty router. `App` is what `.context()` returns; it is inferred when not given. */
  static create<App = unknown>(): KitMcpRouter<App> {
    return new KitMcpRouter({ makeContext: undefined, tools: { entries: [], indexes: new Map() }, size: 0 })
  }

  /** Makes the application's data for a request. Called once per request, before the token is verified. */
  context<Made extends App>(make: AppContextFactory<Made>): KitMcpRouter<unknown extends App ? Made : App> {
    checkFunction(
      'context',
      make,
      'it returns the data that handlers and verifyToken find at context.context',
    )
    return new KitMcpRouter({ ...this.#props, makeContext: make })
  }

  /**
   * Adds a tool.
   * @param name 1 to 128 of `A-Z a-z 0-9 _ . -`, unique in this router.
   * @throws {KitMcpConfigError} for a bad or duplicate name, or a schema that gives no JSON Schema.
   */
  tool<
    Input extends StandardSchemaV1 | undefined = undefined,
    Output extends StandardSchemaV1 | undefined = undefined,
  >(
    name: string,
    config: ToolConfig<Input, Output>,
    handler: ToolHandler<App, Input, Output>,
  ): KitMcpRouter<App> {
    const { tools, size } = this.#props
    const index = tools.indexes.get(name)
    if (index !== undefined && index < size)
      throw invalidOption('tool', `'${name}' is there already: give it another name`)
    const entry = toolEntry(name, config, handler as ToolEntry['handler'])
    const own = tools.entries.length === size ? tools : ownCopy(tools, size)
    own.entries.push(entry)
    own.indexes.set(name, size)
    return new KitMcpRouter({ ...this.#props, tools: own, size: size + 1 })
  }

  static {
    readTable = (router) => {
      router.#table ??= router.#makeTable()
      return router.#table
    }
  }

  #makeTable(): RouterTable {
    const entries = this.#props.tools.entries.slice(0, this.#props.size)
    return {
      makeContext: this.#props.makeContext,
      tools: new Map(entries.map((entry) => [entry.definition.name, entry])),
      definitions: entries.map((entry) => entry.definition),
      scopes: unionOfScopes(...entries.map((entry) => entry.scopes)),
    }
  }
}

/** The finished table of a router, made at the first call. */
export function tableOf(router: KitMcpRouter<any>): RouterTable {
  return readTable(router)
}

/** The chain has branched: this branch goes on with its own list. */
function ownCopy(tools: SharedTools, size: number): SharedTools {
  const entries = tools.entries.slice(0, size)
  return { entries, indexes: new Map(entries.map((entry, index) => [entry.definition.name, index])) }
}

function toolEntry(
  name: string,
  config: ToolConfig<StandardSchemaV1 | undefined, StandardSchemaV1 | undefined>,
  handler: ToolEntry['handler'],
): ToolEntry {
  if (typeof name !== 'string' || !TOOL_NAME.test(name)) {
    throw invalidOption('tool', `needs a name of 1 to 128 characters out of A-Z, a-z, 0-9, '_', '.' and '-'`)
  }
  if (!isOptionsObject(config))
    throw invalidOption('tool', `'${name}' needs an object with at least { description }`)
  checkKnownOptions(`tool '${name}'`, config, TOOL_OPTIONS)
  checkFunction('handler', handler, `tool '${name}' needs a function (args, context) => result`)
  const { title, description, input, output, annotations } = config
  if (typeof description !== 'string' || description === '') {
    throw invalidOption('description', `of tool '${name}' must say what the tool does: models choose by it`)
  }
  const outputJsonSchema =
    output === undefined ? undefined : jsonSchemaOf(`output of tool '${name}'`, output, 'output')
  const inputSchema =
    input === undefined
      ? { type: 'object', properties: {} }
      : jsonSchemaOf(`input of tool '${name}'`, input, 'input')
  const definition = Object.freeze({
    name,
    ...(title !== undefined && { title }),
    description,
    inputSchema,
    ...(outputJsonSchema !== undefined && { outputSchema: outputJsonSchema }),
    ...(annotations !== undefined && { annotations: Object.freeze({ ...annotations }) }),
  }) as Tool
  const scopes =
    config.scopes === undefined ? NO_SCOPES : checkRequiredScopes(`scopes of tool '${name}'`, config.scopes)
  return { definition, scopes, input, output, outputJsonSchema, handler }
}
