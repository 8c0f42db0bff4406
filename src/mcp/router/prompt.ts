import type { GetPromptResult, Prompt, PromptArgument, PromptMessage } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../options/option-checks.ts'
import { type Completer, type Completers, checkCompleters } from './completers.ts'
import type { KitContext } from './context.ts'
import {
  checkDefinition,
  commonMembers,
  DEFINITION_OPTIONS,
  type DefinitionConfig,
  isPublic,
  scopesOf,
  textMember,
} from './definition.ts'
import type { InputRequired } from './input-required.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'
import type { Wrapped } from './middleware.ts'
import type { ArgsOf } from './tool.ts'

const { checkFunction } = optionChecksOf('KitMcpRouter')

type ArgumentNames<Input> = Input extends StandardSchemaV1 ? keyof StandardSchemaV1.InferInput<Input> : never

/** The options of a prompt. */
export interface PromptConfig<Input, App = unknown, User = any> extends DefinitionConfig {
  /** The purpose of the prompt, for people who choose a prompt. */
  readonly description?: string | undefined
  /**
   * The Standard Schema of the arguments. It must provide a JSON Schema. Clients send strings. By default, the prompt has no
   * arguments.
   */
  readonly input?: Input
  /** Functions that suggest values, by argument. */
  readonly complete?: { readonly [Name in ArgumentNames<Input>]?: Completer<App, User> }
}

/** One message of a prompt. It is an interface so that compilers and editors show its name. */
export interface WrittenMessage extends PromptMessage {}

/** A complete MCP result of `prompts/get`. */
export interface WholePrompt extends GetPromptResult {
  messages: WrittenMessage[]
}

/**
 * The value that the handler of a prompt returns: the text of one user message, messages, a complete MCP result, or the
 * result of `context.inputRequired()`.
 */
export type PromptResult = string | readonly WrittenMessage[] | WholePrompt | InputRequired

/**
 * The handler of a prompt. The client receives the message of a thrown `KitToolError`, but not the message of any other error.
 */
export type PromptHandler<App, Input, User = any> = (
  args: ArgsOf<Input>,
  context: KitContext<App, User>,
) => PromptResult | Promise<PromptResult>

/** A prompt, with everything that can be computed before a request. */
export interface PromptEntry extends Wrapped {
  readonly definition: Prompt
  readonly scopes: readonly string[]
  readonly isPublic: boolean
  readonly input: StandardSchemaV1 | undefined
  readonly completers: Completers | undefined
  readonly handler: (args: unknown, context: KitContext) => PromptResult | Promise<PromptResult>
}

const PROMPT_OPTIONS = [...DEFINITION_OPTIONS, 'description', 'input', 'complete']

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function promptEntry(
  name: string,
  config: PromptConfig<StandardSchemaV1 | undefined>,
  handler: PromptEntry['handler'],
): PromptEntry {
  const { description, input, complete } = checkDefinition(
    'prompt',
    name,
    config,
    PROMPT_OPTIONS,
    'description',
  )
  const owner = `prompt '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (args, context) => messages`)
  const args = input === undefined ? [] : promptArguments(jsonSchemaOf(`input of ${owner}`, input, 'input'))
  const definition = Object.freeze({
    name,
    ...commonMembers(owner, config),
    ...textMember(owner, 'description', description),
    ...(args.length > 0 && { arguments: args }),
  }) as Prompt
  const completers = checkCompleters(
    owner,
    complete,
    args.map((argument) => argument.name),
  )
  return {
    definition,
    scopes: scopesOf(owner, config),
    isPublic: isPublic(owner, config),
    input,
    completers,
    handler,
  }
}

function promptArguments({ properties, required }: JsonSchema): PromptArgument[] {
  const needed = Array.isArray(required) ? required : []
  return Object.entries((properties ?? {}) as Record<string, { title?: string; description?: string }>).map(
    ([name, { title, description }]) => ({
      name,
      ...(title !== undefined && { title }),
      ...(description !== undefined && { description }),
      required: needed.includes(name),
    }),
  )
}
