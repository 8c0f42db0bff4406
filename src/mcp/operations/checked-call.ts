import { ProtocolError, type ServerContext } from '@modelcontextprotocol/server'
import { validate } from '../router/json-schema.ts'
import type { OperationKind } from '../router/middleware.ts'
import type { PromptEntry } from '../router/prompt.ts'
import type { ToolEntry } from '../router/tool.ts'
import { KitToolError } from '../router/tool-error.ts'
import type { Exchange, Verdict } from '../wire/exchange.ts'
import { invalidParams } from './params.ts'

/** The JSON-RPC code for a prompt or a resource that the policy denies. */
export const DENIED_CODE = -32_003

/** The text that the client receives if the policy does not give one. */
export const DENIED_TEXTS: Readonly<Record<OperationKind, string>> = {
  tool: 'You are not allowed to use this tool.',
  prompt: 'You are not allowed to use this prompt.',
  resource: 'You are not allowed to read this resource.',
}

/** The parts of a `Serving` that are used here. */
interface PolicyServing {
  readonly policy?: object | undefined
  readonly exchange: Exchange
}

/**
 * Returns the verdict on a call. A call without a verdict is denied. Returns undefined if `authorize` is not set.
 * @param operation the entry of the router's table
 */
export function checkedCall(
  { policy, exchange }: PolicyServing,
  { mcpReq }: { readonly mcpReq: Pick<ServerContext['mcpReq'], 'id'> },
  kind: OperationKind,
  operation: object,
): Verdict | undefined {
  if (policy === undefined) return undefined
  const call = exchange.verdicts?.get(mcpReq.id)
  return call?.operation === operation ? call : { operation, denied: DENIED_TEXTS[kind] }
}

/** Like `checkedCall`, for a prompt or a resource. @throws {ProtocolError} -32003 if the call is denied. */
export function permittedCall(
  serving: PolicyServing,
  sdk: ServerContext,
  kind: 'prompt' | 'resource',
  operation: object,
): Verdict | undefined {
  const call = checkedCall(serving, sdk, kind, operation)
  if (call !== undefined && 'denied' in call) throw new ProtocolError(DENIED_CODE, call.denied)
  return call
}

/** Returns the validated arguments of a call. @throws the error that validating them has thrown. */
export function argumentsOf(call: Verdict): unknown {
  if ('failure' in call) throw call.failure.thrown
  return 'args' in call ? call.args : undefined
}

/**
 * Validates the arguments of a call.
 * @throws {KitToolError} if those of a tool are invalid. @throws {ProtocolError} -32602 if those of a prompt are.
 */
export async function validArguments(
  kind: 'tool' | 'prompt',
  { definition, input }: Pick<ToolEntry | PromptEntry, 'definition' | 'input'>,
  given: unknown,
): Promise<unknown> {
  if (input === undefined) return {}
  const validation = await validate(input, given)
  if ('value' in validation) return validation.value
  const problem = `Invalid arguments for ${kind} ${definition.name}: ${validation.problem}`
  throw kind === 'tool' ? new KitToolError(problem) : invalidParams(problem)
}
