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
  scopesOf,
  textMember,
} from './definition.ts'
import type { InputRequired } from './input-required.ts'
import { type JsonSchema, jsonSchemaOf } from './json-schema.ts'
import type { ArgsOf } from './tool.ts'

const { checkFunction } = optionChecksOf('KitMcpRouter')

type ArgumentNames<Input> = Input extends StandardSchemaV1 ? keyof StandardSchemaV1.InferInput<Input> : never

/** What a prompt is, beside its handler. */
export interface PromptConfig<Input, App = unknown, User = any> extends DefinitionConfig {
  /** What the prompt is for, for people who choose among prompts. */
  readonly description?: string | undefined
  /** Standard Schema of the arguments, able to give a JSON Schema. Clients send strings. Default: no arguments. */
  readonly input?: Input
  /** Suggests values, by argument. */
  readonly complete?: { readonly [Name in ArgumentNames<Input>]?: Completer<App, User> }
}

/** One message of a prompt. An interface, as `WholePrompt` is, so that compilers and editors tell it by its name. */
export interface WrittenMessage extends PromptMessage {}

/** A whole MCP result. */
export interface WholePrompt extends GetPromptResult {
  messages: WrittenMessage[]
}

/** What a prompt may give: the text of one message of the user, messages, or a whole MCP result. */
export type PromptResult = string | readonly WrittenMessage[] | WholePrompt | InputRequired

/** Makes a prompt. The text of a thrown `KitToolError` is shown to the client, that of any other error is not. */
export type PromptHandler<App, Input, User = any> = (
  args: ArgsOf<Input>,
  context: KitContext<App, User>,
) => PromptResult | Promise<PromptResult>

/** A prompt with everything about it that can be computed before a request. */
export interface PromptEntry {
  readonly definition: Prompt
  readonly scopes: readonly string[]
  readonly input: StandardSchemaV1 | undefined
  readonly completers: Completers | undefined
  readonly handler: (args: unknown, context: KitContext) => PromptResult | Promise<PromptResult>
}

const PROMPT_OPTIONS = [...DEFINITION_OPTIONS, 'description', 'input', 'complete']

/** @throws {KitMcpConfigError} naming what is wrong. */
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
  checkFunction('handler', handler, `${owner} needs a function (args, context) => messages`)
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
  return { definition, scopes: scopesOf(owner, config), input, completers, handler }
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
