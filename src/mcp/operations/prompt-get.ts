import {
  type GetPromptRequest,
  type GetPromptResult,
  type InputRequiredResult,
  type PromptMessage,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { isInputRequired } from '../router/input-required.ts'
import { validate } from '../router/json-schema.ts'
import type { PromptEntry, PromptResult } from '../router/prompt.ts'
import { runRound, runSafely, type Serving } from './operation.ts'

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
  if (prompt === undefined)
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Prompt ${name} not found`)
  return await runSafely(serving, request, sdk, 'The prompt', () =>
    runRound(serving, sdk, name, async (context) => {
      const result = await prompt.handler(await argumentsOf(prompt, given), context)
      return isInputRequired(result) ? result : promptResult(prompt, result)
    }),
  )
}

async function argumentsOf({ definition, input }: PromptEntry, given: object): Promise<unknown> {
  if (input === undefined) return {}
  const validation = await validate(input, given)
  if ('value' in validation) return validation.value
  throw new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `Invalid arguments for prompt ${definition.name}: ${validation.problem}`,
  )
}

function promptResult({ definition }: PromptEntry, returned: PromptResult): GetPromptResult {
  const described = definition.description === undefined ? {} : { description: definition.description }
  if (typeof returned === 'string') {
    return { ...described, messages: [{ role: 'user', content: { type: 'text', text: returned } }] }
  }
  if (Array.isArray(returned)) return { ...described, messages: [...(returned as PromptMessage[])] }
  if (Array.isArray((returned as GetPromptResult | undefined)?.messages)) return returned as GetPromptResult
  throw new TypeError(`Prompt ${definition.name} must return a string, messages, or a result`)
}
