import { randomUUID } from 'node:crypto'
import {
  type CallToolRequest,
  type CallToolResult,
  type InputRequiredResult,
  isInputRequiredResult,
  type Server,
  specTypeSchemas,
} from '@modelcontextprotocol/server'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import type { InputRequired } from '../router/input-required.ts'
import { validate } from '../router/schemas/json-schema.ts'
import type { ToolEntry } from '../router/tool.ts'
import type { Failure, TimedCall } from '../wire/exchange.ts'
import { checkJson, plainCopy } from '../wire/json-safe.ts'
import { problemIn } from '../wire/schema-issues.ts'
import { LimitReached } from './limits/limit-reached.ts'
import {
  argumentsOf,
  type CallContext,
  checkedCall,
  invalidParams,
  isProtocolError,
  isRefusedRound,
  runAround,
  runRound,
  type SdkContext,
  type Serving,
  textForClient,
  validArguments,
} from './operation.ts'

/**
 * Begins the task that runs a permitted and confirmed call. Returns the task, the question of `beforeTask`, or a tool error.
 * Throws what a tool may throw.
 */
export type BeginTask = (
  round: { readonly serving: Serving; readonly sdk: SdkContext },
  call: TimedCall,
  args: unknown,
) => Promise<CallToolResult | InputRequiredResult>

/**
 * Serves `tools/call`. Every error in the tool becomes a result with `isError: true`. Its text is the message of a
 * `KitToolError`, the problems of the arguments, or a reference id under which telemetry records the cause.
 * @throws {ProtocolError} -32602 if the tool does not exist, or if the state belongs to another user.
 */
export async function callTool(
  serving: Serving,
  request: CallToolRequest,
  sdk: SdkContext,
  server: Pick<Server, 'projectCallToolResult'>,
  beginTask?: BeginTask,
): Promise<CallToolResult | InputRequiredResult> {
  const tool = serving.table.tools.get(request.params.name)
  if (tool === undefined) throw invalidParams(`Tool ${request.params.name} not found`)
  const permitted = checkedCall(serving, sdk, 'tool', tool)
  if (permitted !== undefined && 'denied' in permitted)
    return server.projectCallToolResult(errorResult(permitted.denied), tool.outputJsonSchema)
  const { telemetry } = serving.exchange
  const call = {
    method: request.method,
    params: request.params,
    id: sdk.mcpReq.id,
    startedAt: performance.now(),
  }
  let result: CallToolResult | InputRequiredResult
  let failed: FailedCall | undefined
  try {
    const args =
      permitted === undefined
        ? await validArguments('tool', tool, request.params.arguments ?? {})
        : argumentsOf(permitted)
    const { confirmations } = serving
    const round =
      tool.confirm === undefined || confirmations === undefined
        ? { serving, sdk }
        : await confirmations.round(serving, sdk, tool, tool.confirm, call, args)
    if ('question' in round) return round.question
    if ('refusal' in round)
      return server.projectCallToolResult(errorResult(round.refusal), tool.outputJsonSchema)
    if (beginTask === undefined)
      result = await runRound(round.serving, round.sdk, tool.definition.name, (context) => {
        const { exchange, endCounted } = serving
        const runOnce = () => runTool(tool, args, context)
        return tool.limiter?.run({ exchange, timed: call, context }, runOnce, endCounted) ?? runOnce()
      })
    else {
      result = await beginTask(round, call, args)
      if (result.isError !== true) return result
    }
  } catch (thrown) {
    if (isRefusedRound(thrown)) throw thrown
    if (serving.keepsProtocolErrors && isProtocolError(thrown)) {
      telemetry.record('tool.failed', call, { failure: { thrown } })
      throw thrown
    }
    failed = failedCall(thrown)
    result = failed.result
  }
  const isQuestion = isInputRequiredResult(result)
  const limit = failed?.limit ?? (isQuestion ? undefined : LimitReached.in(tool.limiter?.exceededBy(result)))
  if (limit !== undefined) {
    telemetry.record('limit.reached', call, { reached: limit.reached })
    result = limit.result
    if (!limit.hasRun) return server.projectCallToolResult(result, tool.outputJsonSchema)
  }
  if (result.isError === true)
    telemetry.record('tool.failed', call, { failure: failed?.failure, reference: failed?.reference })
  else telemetry.record('tool.completed', call, { result })
  return isInputRequiredResult(result) ? result : server.projectCallToolResult(result, tool.outputJsonSchema)
}

/** A call whose handler threw, or that has reached a limit. */
interface FailedCall {
  readonly result: CallToolResult
  /** The value that the handler threw, if it threw one. */
  readonly failure?: Failure
  /** The reference id that the client receives instead of the cause. */
  readonly reference?: string
  readonly limit?: LimitReached | undefined
}

/** Returns the result for a value that a tool, or its limits, have thrown. */
function failedCall(thrown: unknown): FailedCall {
  const limit = LimitReached.in(thrown)
  if (limit !== undefined) return { result: limit.result, limit }
  const failure = { thrown }
  const text = textForClient(thrown)
  if (text !== undefined) return { result: errorResult(text), failure }
  const reference = randomUUID()
  return { result: errorResult(`The tool failed. Reference: ${reference}`), failure, reference }
}

/** Runs a tool, and its middleware if there is any. */
async function runTool(
  tool: ToolEntry,
  args: unknown,
  context: CallContext,
): Promise<CallToolResult | InputRequired> {
  if (tool.around === undefined) return await resultOf(tool, await tool.handler(args, context))
  const operation = { kind: 'tool', name: tool.definition.name, args } as const
  let validated: unknown
  const runHandler = async (): Promise<CallToolResult | InputRequired> => {
    const result = await resultOf(tool, await tool.handler(args, context))
    validated = result.structuredContent
    return result
  }
  const returned = await runAround(tool, context, operation, runHandler, 'tools/call', isToolResult)
  return await resultOf(tool, returned, validated)
}

/**
 * Returns the MCP result for the value that a handler, or middleware, has returned.
 * @param validated structured content that has been validated. Middleware may return it again, unchanged.
 */
async function resultOf(
  tool: ToolEntry,
  returned: unknown,
  validated?: unknown,
): Promise<CallToolResult | InputRequired> {
  const isResult = isToolResult(returned)
  if (isResult || isInputRequiredResult(returned)) checkJson(returned)
  if (isInputRequiredResult(returned)) return returned
  const result = isResult ? plainCopy(returned) : undefined
  if (result !== undefined) checkToolResult(tool.definition.name, result)
  if (tool.output === undefined) return result ?? { content: textContent(returned) }
  if (result?.isError === true) return result
  if (isResult && validated !== undefined && returned.structuredContent === validated)
    return result as CallToolResult
  const validation = await validate(tool.output, result === undefined ? returned : result.structuredContent)
  if ('problem' in validation) {
    throw new TypeError(
      `Tool ${tool.definition.name} returned a value that does not match its output schema: ${validation.problem}`,
    )
  }
  const structured = validation.value as Record<string, unknown>
  if (result === undefined)
    return { content: textContent(structured), structuredContent: plainCopy(structured) }
  checkJson(structured)
  return { ...result, structuredContent: plainCopy(structured) }
}

const RESULT_MEMBERS = new Set(['content', 'structuredContent', 'isError', '_meta', 'resultType'])

const CONTENT_TYPES: ReadonlySet<unknown> = new Set(['text', 'image', 'audio', 'resource_link', 'resource'])

/** Returns `true` for a complete MCP result: `content` with known types, and no unknown members. */
function isToolResult(value: unknown): value is CallToolResult {
  if (typeof value !== 'object' || value === null) return false
  const { content } = value as { content?: unknown }
  return (
    Array.isArray(content) &&
    content.every((block) => CONTENT_TYPES.has((block as { type?: unknown } | null)?.type)) &&
    Object.keys(value).every((member) => RESULT_MEMBERS.has(member))
  )
}

/** @throws {TypeError} if MCP does not allow the result. The SDK would report it as an error of the client. */
function checkToolResult(name: string, result: CallToolResult): void {
  // The schemas of the SDK are synchronous.
  const { issues } = specTypeSchemas.CallToolResult['~standard'].validate(
    result,
  ) as StandardSchemaV1.Result<unknown>
  if (issues !== undefined)
    throw new TypeError(`Tool ${name} returned an invalid MCP result: ${problemIn(issues)}`)
}

function textContent(value: unknown): CallToolResult['content'] {
  if (value === undefined) return []
  const text: string | undefined = typeof value === 'string' ? value : JSON.stringify(value)
  if (text === undefined)
    throw new TypeError(`The tool returned a ${typeof value}, which cannot be serialized as JSON`)
  return [{ type: 'text', text }]
}

/** Returns a tool result that reports an error. */
export function errorResult(text: string): CallToolResult {
  return { content: [{ type: 'text', text }], isError: true }
}
