import type { CallToolResult, Tool, ToolAnnotations } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { isText } from '../../base/options/option-kit.ts'
import {
  also,
  type OptionRule,
  optional,
  type ReadBy,
  type RulesFor,
  unchecked,
} from '../../base/options/option-rules.ts'
import { MAX_TIMER_MS } from '../../base/timers.ts'
import { checkVisibility, OLD_URI_META_KEY, type ToolVisibility } from './apps/app.ts'
import type { PolicyDecision, PolicyQuery } from './authorize.ts'
import type { KitContext } from './context.ts'
import { DEFINITION_RULES, type DefinitionConfig, defined, objectCopy, readDefinition } from './definition.ts'
import type { InputRequired } from './input-required.ts'
import { checkLimits, type McpLimits, type ToolLimiter } from './limits.ts'
import type { Wrapped } from './middleware.ts'
import { inputSchemaOf, type JsonSchema, jsonSchemaOf } from './schemas/json-schema.ts'
import { declaresHeaders } from './schemas/param-headers.ts'

const checks = optionChecksOf('KitMcpRouter')
const { callable, checkFunction, fitting, text, oneOf, unusableOption, wholeNumber } = checks

/**
 * The argument of a tool's `authorize` and `confirm`: a call that the adapter's `authorize` permits, with the validated arguments.
 */
export interface ToolPolicyQuery<Args> extends Omit<PolicyQuery<any, any>, 'args'> {
  readonly purpose: 'call'
  readonly args: Args
}

/** The options of a tool. */
export interface ToolConfig<Input, Output> extends DefinitionConfig {
  /** The purpose of the tool, for the model that chooses a tool. */
  readonly description: string
  /** The Standard Schema of the arguments. It must provide a JSON Schema. By default, the tool has no arguments. */
  readonly input?: Input
  /**
   * The Standard Schema of the result. It must provide a JSON Schema. The value that the handler returns is validated and sent
   * as `structuredContent`.
   */
  readonly output?: Output
  /** Hints about the effects of a call, such as `readOnlyHint`. Clients may ignore them. */
  readonly annotations?: ToolAnnotations
  /**
   * The name of an app of the same router, which shows the results of the tool. By default, the tool has no app.
   * @see docs/guides/apps.md
   */
  readonly app?: string | undefined
  /**
   * The callers for which hosts with MCP Apps show the tool: the model, the apps of this server, or both. It does not protect
   * the tool. Defaults to `['model', 'app']`.
   */
  readonly visibility?: readonly ToolVisibility[] | undefined
  /**
   * Limits for the calls of this tool, in addition to those of the adapter. Unlimited by default.
   * @see docs/guides/limits.md
   */
  readonly limits?: McpLimits | undefined
  /**
   * Decides about each call of this tool, after the adapter's `authorize`, with the same verdicts, timeout, and event. It is not
   * asked about lists. By default, the adapter's `authorize` decides alone.
   * @see docs/guides/policy.md
   */
  authorize?(query: ToolPolicyQuery<ArgsOf<Input>>): PolicyDecision | Promise<PolicyDecision>
  /**
   * Returns the question that the user must answer with yes before a call of this tool runs, or undefined to ask nothing. A
   * question has at most 1,024 characters; control characters, and those that change the direction of text, are removed. If it
   * throws or returns anything else, and if the client cannot ask, the call is refused. An answer is good for one call with these
   * arguments, for 10 minutes. By default, no question is asked.
   * @see docs/guides/confirmations.md
   */
  confirm?(query: ToolPolicyQuery<ArgsOf<Input>>): string | undefined | Promise<string | undefined>
  /**
   * Runs the tool as a task for clients that support the extension `io.modelcontextprotocol/tasks`: the call returns at once,
   * and the client asks for the result later. For other clients, `optional` runs the tool during the call, and `required`
   * returns the error -32021. By default, the tool never runs as a task.
   * @see docs/guides/tasks.md
   */
  readonly task?: 'optional' | 'required' | undefined
  /** The time for which a task is kept after it was created, in milliseconds. Defaults to `tasks.ttlMs` of the adapter. */
  readonly ttlMs?: number | undefined
  /** The interval at which clients should ask for the status of a task, in milliseconds. Defaults to 1 000 ms. */
  readonly pollIntervalMs?: number | undefined
  /**
   * Runs before a task is created, during the call. It returns the result of `context.inputRequired()` to ask for input first,
   * or undefined to create the task. The handler then receives the answers in its first round.
   */
  beforeTask?(
    args: ArgsOf<Input>,
    context: KitContext<any>,
  ): InputRequired | undefined | Promise<InputRequired | undefined>
}

/** The options of a tool that runs as a task. */
export interface ToolTask {
  readonly mode: 'optional' | 'required'
  readonly ttlMs: number | undefined
  readonly pollIntervalMs: number
  readonly before: ((args: unknown, context: KitContext) => unknown) | undefined
}

/** The arguments of a handler: the parsed value, or `{}` without a schema. */
export type ArgsOf<Input> = Input extends StandardSchemaV1
  ? StandardSchemaV1.InferOutput<Input>
  : Record<string, never>

/** A complete MCP result of `tools/call`. It is an interface so that compilers and editors show its name. */
export interface ToolResult extends CallToolResult {}

/** The return type of a tool's handler. `Given` is the input type of the option `output`. */
type ReturnOf<Given> = Given | ToolResult | InputRequired | Promise<Given | ToolResult | InputRequired>

/**
 * The handler of a tool. `Given` is the input type of the option `output`. The type is conditional, although the condition is
 * always true: compilers then know `Given` when they infer the handler, and infer literal types for the strings it returns.
 */
export type HandlerGiving<Given, Args, Context> = [Given] extends [infer Known]
  ? (args: Args, context: Context) => ReturnOf<Known>
  : never

type GivenOf<Output> = Output extends StandardSchemaV1 ? StandardSchemaV1.InferInput<Output> : unknown

/**
 * The handler of a tool. It returns a string, any JSON value, a complete MCP result, or the result of
 * `context.inputRequired()`. The client receives the message of a thrown `KitToolError`, but not the message of any other
 * error.
 */
export type ToolHandler<App, Input, Output, User = any> = (
  args: ArgsOf<Input>,
  context: KitContext<App, User>,
) => ReturnOf<GivenOf<Output>>

/** A tool, with everything that can be computed before a request. */
export interface ToolEntry extends Wrapped {
  readonly kind: 'tool'
  readonly definition: Tool
  readonly input: StandardSchemaV1 | undefined
  readonly output: StandardSchemaV1 | undefined
  readonly outputJsonSchema: JsonSchema | undefined
  /** `true` if arguments are repeated in `Mcp-Param-*` headers (2026-07-28). */
  readonly declaresHeaders: boolean
  /** The name of the app that shows the results. Absent if there is none. */
  readonly app?: string
  readonly limits: McpLimits | undefined
  /** Runs the tool within its limits and those of the adapter. The table of an adapter sets it. Absent if there are none. */
  readonly limiter?: ToolLimiter
  /** Decides about each call. Absent if only the adapter's policy does. */
  readonly authorize?: (query: PolicyQuery) => PolicyDecision | Promise<PolicyDecision>
  /** Returns the question to the user. Absent if the user is not asked. */
  readonly confirm?: (query: PolicyQuery) => unknown
  readonly handler: (args: unknown, context: KitContext) => unknown
  /** Undefined if the tool never runs as a task. */
  readonly task: ToolTask | undefined
}

/** The rule of an option that only a tool with the option `task` may have. */
function ofTask<Value>(rule: OptionRule<Value>): OptionRule<Value> {
  return also(rule, (option, _value, { task }) => {
    if (task === undefined)
      throw unusableOption(
        option,
        'can be used only with the option task',
        `Set task to 'optional' or 'required'.`,
      )
  })
}

const TOOL_RULES = {
  ...DEFINITION_RULES,
  description: fitting<string>(
    isText,
    'must be a non-empty string',
    'describe the purpose of the tool, because models choose tools by their description',
  ),
  input: inputSchemaOf,
  output: optional((option, output) => jsonSchemaOf(option, output, 'output')),
  annotations: optional(objectCopy),
  app: optional(text),
  visibility: optional(checkVisibility),
  limits: unchecked(),
  authorize: optional(
    callable<NonNullable<ToolEntry['authorize']>>('set it to a function (query) => true or false'),
  ),
  confirm: optional(
    callable<NonNullable<ToolEntry['confirm']>>(
      'set it to a function (query) => the question, or undefined to ask nothing',
    ),
  ),
  task: optional(
    also(oneOf(['optional', 'required']), (option, task, { public: isPublic }) => {
      if (task === 'required' && isPublic === true)
        throw unusableOption(
          option,
          `must not be 'required' for a public tool, because a task belongs to a user`,
          `Set task to 'optional', or remove public.`,
        )
    }),
  ),
  ttlMs: optional(ofTask(wholeNumber(1, MAX_TIMER_MS))),
  pollIntervalMs: optional(ofTask(wholeNumber(1, MAX_TIMER_MS)), 1_000),
  beforeTask: optional(ofTask(callable<ToolTask['before']>('set it to a function (args, context)'))),
} satisfies RulesFor<ToolConfig<unknown, unknown>>

type ReadTool = ReadBy<typeof TOOL_RULES>

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function toolEntry(
  name: string,
  config: ToolConfig<StandardSchemaV1 | undefined, StandardSchemaV1 | undefined>,
  handler: ToolEntry['handler'],
): ToolEntry {
  const read = readDefinition('tool', name, config, TOOL_RULES, 'description')
  const { title, icons, description, input: inputSchema, output: outputSchema, annotations } = read
  const { scopes, app, authorize, confirm, task, ttlMs, pollIntervalMs, beforeTask } = read
  const owner = `tool '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (args, context) => result`)
  const _meta = metaOf(owner, read)
  return {
    kind: 'tool',
    definition: defined({
      name,
      title,
      icons,
      _meta,
      description,
      inputSchema,
      outputSchema,
      annotations,
    }) as Tool,
    scopes,
    isPublic: read.public,
    input: config.input,
    output: config.output,
    outputJsonSchema: outputSchema,
    declaresHeaders: declaresHeaders(`input of ${owner}`, inputSchema),
    ...(app !== undefined && { app }),
    limits: config.limits === undefined ? undefined : checkLimits(checks, config.limits, owner),
    ...(authorize !== undefined && { authorize }),
    ...(confirm !== undefined && { confirm }),
    handler,
    task: task && { mode: task, ttlMs, pollIntervalMs, before: beforeTask },
  }
}

/** Returns the metadata of a tool. The table of the router adds the URI of its app. */
function metaOf(owner: string, { app, visibility, _meta }: ReadTool): object | undefined {
  if (app === undefined && visibility === undefined) return _meta
  const conflict = ['ui', OLD_URI_META_KEY].find((key) => _meta !== undefined && key in _meta)
  if (conflict !== undefined)
    throw unusableOption(
      `_meta of ${owner}`,
      `must not contain '${conflict}' together with app or visibility`,
      `Remove '${conflict}' from _meta.`,
    )
  return visibility === undefined ? _meta : Object.freeze({ ..._meta, ui: Object.freeze({ visibility }) })
}
