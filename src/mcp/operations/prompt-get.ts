import {
  type GetPromptRequest,
  type GetPromptResult,
  type InputRequiredResult,
  isInputRequiredResult,
  type PromptMessage,
  type ServerContext,
} from '@modelcontextprotocol/server'
import type { InputRequired } from '../router/input-required.ts'
import type { PromptEntry, PromptResult } from '../router/prompt.ts'
import {
  argumentsOf,
  invalidParams,
  permittedCall,
  runAround,
  runRound,
  runSafely,
  type Serving,
  validArguments,
} from './operation.ts'

/**
 * Serves `prompts/get`.
 * @throws {ProtocolError} -32602 if the prompt does not exist or its arguments are invalid, -32603 if it has failed.
 */
export async function getPrompt(
  serving: Serving,
  request: GetPromptRequest,
  sdk: ServerContext,
): Promise<GetPromptResult | InputRequiredResult> {
  const { name, arguments: given = {} } = request.params
  const prompt = serving.table.prompts.get(name)
  if (prompt === undefined) throw invalidParams(`Prompt ${name} not found`)
  const permitted = permittedCall(serving, sdk, 'prompt', prompt)
  return await runSafely(serving, request, sdk, 'The prompt', () =>
    runRound(serving, sdk, name, async (context) => {
      const args =
        permitted === undefined ? await validArguments('prompt', prompt, given) : argumentsOf(permitted)
      const run = async (): Promise<GetPromptResult | InputRequired> =>
        promptResult(prompt, await prompt.handler(args, context))
      const operation = { kind: 'prompt', name, args } as const
      return await runAround(prompt, context, operation, run, 'prompts/get', isPromptResult)
    }),
  )
}

function promptResult({ definition }: PromptEntry, returned: PromptResult): GetPromptResult | InputRequired {
  if (isInputRequiredResult(returned)) return returned
  const described = definition.description === undefined ? {} : { description: definition.description }
  if (typeof returned === 'string') {
    return { ...described, messages: [{ role: 'user', content: { type: 'text', text: returned } }] }
  }
  if (Array.isArray(returned)) return { ...described, messages: [...(returned as PromptMessage[])] }
  if (isPromptResult(returned)) return returned
  throw new TypeError(`Prompt ${definition.name} must return a string, messages, or a result`)
}

function isPromptResult(value: unknown): value is GetPromptResult {
  return Array.isArray((value as GetPromptResult | undefined)?.messages)
}
