import { randomBytes } from 'node:crypto'
import type {
  CallToolRequest,
  CallToolResult,
  InputRequiredResult,
  Server,
  ServerContext,
} from '@modelcontextprotocol/server'
import { clientKey } from '../../http/client-address.ts'
import { requestOf } from '../../oauth/inputs.ts'
import { ownerOf } from '../../oauth/owner.ts'
import { argumentsOf, checkedCall, validArguments } from '../operations/checked-call.ts'
import { confirmedRound, isRefusedRound, runRound, type Serving } from '../operations/operation.ts'
import { callTool, errorResult, failedCall } from '../operations/tool-call.ts'
import { type InputRequired, isInputRequired } from '../router/input-required.ts'
import type { ToolEntry, ToolTask } from '../router/tool.ts'
import { isAnonymous } from '../wire/exchange.ts'
import { declaresTasks, missingTasks } from './task-capabilities.ts'
import { hashOf, referenceOf } from './task-key.ts'
import type { ResolvedTaskOptions } from './task-options.ts'
import { type TaskRecord, taskOf } from './task-record.ts'
import type { TaskRun, TaskRunner } from './task-runner.ts'

/** A tool that may run as a task. */
export type TaskTool = ToolEntry & { readonly task: ToolTask }

/** Serves calls of tools that may run as tasks: asks the user with `beforeTask`, creates the task, and begins its run. */
export class TaskCalls {
  readonly #options: ResolvedTaskOptions
  readonly #runner: TaskRunner

  constructor(options: ResolvedTaskOptions, runner: TaskRunner) {
    this.#options = options
    this.#runner = runner
  }

  /** Serves `tools/call` of a tool that may run as a task. */
  async serve(
    serving: Serving,
    request: CallToolRequest,
    sdk: ServerContext,
    server: Server,
    tool: TaskTool,
  ): Promise<CallToolResult | InputRequiredResult> {
    const { mode, before } = tool.task
    const isDeclared = declaresTasks(sdk.mcpReq.envelope)
    if (!isDeclared && mode === 'required') throw missingTasks()
    // A task of an anonymous caller would have no owner.
    const runsAsTask = isDeclared && !isAnonymous(serving.exchange)
    if (!runsAsTask || (this.#runner.isClosed && mode === 'optional'))
      return await callTool(serving, request, sdk, server)
    const permitted = checkedCall(serving, sdk, 'tool', tool)
    const args = permitted === undefined || !('denied' in permitted) ? await validated() : undefined
    // The call responds with the reason.
    if (args === undefined) return await callTool(serving, request, sdk, server)
    const { telemetry } = serving.exchange
    const timed = {
      method: request.method,
      params: request.params,
      id: sdk.mcpReq.id,
      startedAt: performance.now(),
    }
    let end: (() => void) | undefined
    let isRunning = false
    try {
      const round = await confirmedRound(serving, sdk, tool, timed, args.value)
      if ('question' in round) return round.question
      if ('refusal' in round) return errorResult(round.refusal)
      // The run of the task counts as this call.
      end = await tool.limiter?.begin({ exchange: serving.exchange, timed })
      let answers: Pick<TaskRun, 'responses' | 'state'> = { responses: {}, state: undefined }
      if (before !== undefined) {
        const asked = await runRound(round.serving, round.sdk, tool.definition.name, async (context) => {
          const returned: unknown = await before(args.value, context)
          if (returned !== undefined && !isInputRequired(returned))
            throw new TypeError('beforeTask must return the result of context.inputRequired(), or undefined')
          const { inputResponses: responses, state } = context
          answers = { responses, state: state === undefined ? undefined : JSON.stringify(state) }
          return returned as InputRequired | undefined
        })
        if (asked !== undefined) return asked as InputRequiredResult
      }
      const created = await this.#create(serving, request, sdk, server, tool, { ...answers, end })
      isRunning = created.isError !== true
      if (!isRunning) telemetry.record('tool.failed', timed, {})
      return created
    } catch (thrown) {
      if (isRefusedRound(thrown)) throw thrown
      const { result, failure, reference, limit } = failedCall(tool, thrown)
      if (limit !== undefined) telemetry.record('limit.reached', timed, { reached: limit.reached })
      if (limit?.hasRun !== false) telemetry.record('tool.failed', timed, { failure, reference })
      return result
    } finally {
      if (!isRunning) end?.()
    }

    async function validated(): Promise<{ readonly value: unknown } | undefined> {
      try {
        return {
          value:
            permitted === undefined
              ? await validArguments('tool', tool, request.params.arguments ?? {})
              : argumentsOf(permitted),
        }
      } catch {
        return undefined
      }
    }
  }

  async #create(
    serving: Serving,
    request: CallToolRequest,
    sdk: ServerContext,
    server: Server,
    tool: TaskTool,
    round: Pick<TaskRun, 'responses' | 'state' | 'end'>,
  ): Promise<CallToolResult> {
    if (this.#runner.isClosed) return errorResult('The server is shutting down. Try again later.')
    const { exchange } = serving
    const { maxPerOwner } = this.#options
    const key = { owner: hashOf(ownerOf(exchange.auth)), id: randomBytes(24).toString('base64url') }
    const now = Date.now()
    const record: TaskRecord = {
      status: 'working',
      createdAt: now,
      updatedAt: now,
      ttlMs: tool.task.ttlMs ?? this.#options.ttlMs,
      pollIntervalMs: tool.task.pollIntervalMs,
      tool: tool.definition.name,
      args: request.params.arguments ?? {},
      node: this.#runner.stored.node,
      round: 1,
    }
    // Without OAuth, tasks are counted by address.
    const address =
      exchange.auth === undefined ? clientKey(requestOf(exchange.context)?.clientAddress) : undefined
    const countedFor = address === undefined ? key.owner : hashOf(address)
    switch (await this.#runner.stored.add(key, record, countedFor, maxPerOwner)) {
      case 'owner-full':
        return errorResult(
          `There are ${maxPerOwner} tasks of this user, which is the maximum. Try again when one of them has expired.`,
        )
      case 'store-full':
        return errorResult('The server has no room for another task. Try again later.')
    }
    exchange.telemetry.recordTask('task.created', { tool: record.tool, reference: referenceOf(key) })
    this.#runner.run({ serving, sdk, server, key, record, ...round })
    // The type of the SDK does not know that the result of a call may be a task.
    return { resultType: 'task', ...taskOf(key.id, record) } as unknown as CallToolResult
  }
}
