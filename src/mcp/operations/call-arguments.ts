import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server'
import { validate } from '../router/json-schema.ts'
import type { PromptEntry } from '../router/prompt.ts'
import type { ToolEntry } from '../router/tool.ts'
import { KitToolError } from '../router/tool-error.ts'

/** Validates the arguments of a tool. @throws {KitToolError} if they are invalid. */
export async function toolArguments({ definition, input }: ToolEntry, given: unknown): Promise<unknown> {
  if (input === undefined) return {}
  const validation = await validate(input, given)
  if ('value' in validation) return validation.value
  throw new KitToolError(`Invalid arguments for tool ${definition.name}: ${validation.problem}`)
}

/** Validates the arguments of a prompt. @throws {ProtocolError} -32602 if they are invalid. */
export async function promptArguments({ definition, input }: PromptEntry, given: object): Promise<unknown> {
  if (input === undefined) return {}
  const validation = await validate(input, given)
  if ('value' in validation) return validation.value
  throw new ProtocolError(
    ProtocolErrorCode.InvalidParams,
    `Invalid arguments for prompt ${definition.name}: ${validation.problem}`,
  )
}
