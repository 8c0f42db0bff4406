import type { GetPromptResult, Prompt, PromptArgument, PromptMessage } from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor, unchecked } from '../../base/options/option-rules.ts'
import { type Completer, type Completers, checkCompleters } from './completers.ts'
import type { KitContext } from './context.ts'
import { DEFINITION_RULES, type DefinitionConfig, defined, readDefinition } from './definition.ts'
import type { InputRequired } from './input-required.ts'
import type { Wrapped } from './middleware.ts'
import { inputSchemaOf, type JsonSchema } from './schemas/json-schema.ts'
import type { ArgsOf } from './tool.ts'

const { checkFunction, checkString } = optionChecksOf('KitMcpRouter')

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
  readonly kind: 'prompt'
  readonly definition: Prompt
  readonly input: StandardSchemaV1 | undefined
  readonly completers: Completers | undefined
  readonly handler: (args: unknown, context: KitContext) => PromptResult | Promise<PromptResult>
}

const PROMPT_RULES = {
  ...DEFINITION_RULES,
  description: optional(checkString),
  input: inputSchemaOf,
  complete: unchecked(),
} satisfies RulesFor<PromptConfig<unknown>>

/** @throws {KitMcpConfigError} if the name, an option, or the handler is invalid. */
export function promptEntry(
  name: string,
  config: PromptConfig<StandardSchemaV1 | undefined>,
  handler: PromptEntry['handler'],
): PromptEntry {
  const read = readDefinition('prompt', name, config, PROMPT_RULES, 'description')
  const { scopes, public: isPublic, input, complete, ...members } = read
  const owner = `prompt '${name}'`
  checkFunction('handler', handler, `give ${owner} a function (args, context) => messages`)
  const all = promptArguments(input)
  const args = all.length > 0 ? all : undefined
  return {
    kind: 'prompt',
    definition: defined({ name, ...members, arguments: args }) as Prompt,
    scopes,
    isPublic,
    input: config.input,
    completers: checkCompleters(
      owner,
      complete,
      all.map((argument) => argument.name),
    ),
    handler,
  }
}

function promptArguments({ properties, required }: JsonSchema): PromptArgument[] {
  const needed = Array.isArray(required) ? required : []
  return Object.entries((properties ?? {}) as Record<string, { title?: string; description?: string }>).map(
    ([name, { title, description }]) =>
      defined({ name, title, description, required: needed.includes(name) }) as PromptArgument,
  )
}
