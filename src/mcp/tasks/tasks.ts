import { randomBytes } from 'node:crypto'
import {
  type CallToolRequest,
  type CallToolResult,
  type InputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { ownerOf } from '../../oauth/owner.ts'
import { isRecord } from '../../options/value-kinds.ts'
import { toolArguments } from '../operations/call-arguments.ts'
import { isStateRefusal, runRound, type Serving } from '../operations/operation.ts'
import {
  argumentsOf,
  checkedCall,
  DENIED_CODE,
  type Denied,
  type Policy,
  textOf,
} from '../operations/policy.ts'
import { callTool, errorResult, failedResult } from '../operations/tool-call.ts'
import { type InputRequired, isInputRequired } from '../router/input-required.ts'
import type { RouterTable } from '../router/router-table.ts'
import type { ToolEntry, ToolTask } from '../router/tool.ts'
import { type Exchange, isAnonymous } from '../wire/exchange.ts'
import { declaresTasks, missingTasks } from './task-capabilities.ts'
import { endOf, hashOf, referenceOf } from './task-key.ts'
import type { ResolvedTaskOptions } from './task-options.ts'
import {
  changed,
  detailedTaskOf,
  isTerminal,
  namedResponses,
  type TaskRecord,
  taskOf,
} from './task-record.ts'
import { type TaskListener, type TaskRun, TaskRunner } from './task-runner.ts'
import type { TaskKey } from './task-store.ts'

/** The maximum size of the answers that a task waits with, in characters of JSON. */
const MAX_ANSWERS = 1_048_576
/** The maximum length of a task id that a client sends. */
const MAX_ID = 256
/** The maximum number of tasks that one stream watches. */
const MAX_WATCHED = 128

/** A tool that may run as a task. */
export type TaskTool = ToolEntry & { readonly task: ToolTask }

/** The tasks that run in this process. */
export interface McpTasks {
  /** The number of tasks that run in this process. */
  readonly running: number
  /**
   * Accepts no further tasks, waits for the running ones, and marks those as failed that have not ended in time. Never rejects.
   * @param options `timeoutMs` is the time to wait. Defaults to 0 ms.
   */
  close(options?: { readonly timeoutMs?: number | undefined }): Promise<void>
}

/** The task that a request names, or the error that the client receives. */
type TaskAccess = { readonly key: TaskKey; readonly record: TaskRecord } | { readonly error: ProtocolError }

interface JsonRpcRequest {
  readonly method: string
  readonly id: string | number
}

/** Serves calls of tools that run as tasks, and `tasks/get`, `tasks/update`, and `tasks/cancel` (SEP-2663). */
export class Tasks implements McpTasks {
  readonly #options: ResolvedTaskOptions
  readonly #table: RouterTable
  readonly #policy: Policy | undefined
  readonly #runner: TaskRunner
  /** The verdicts of `authorize`. */
  readonly #access = new WeakMap<Exchange, TaskAccess>()
  /** The addresses by which tasks are counted if OAuth is disabled. */
  readonly #addresses = new WeakMap<Exchange, string>()

  constructor(options: ResolvedTaskOptions, table: RouterTable, policy: Policy | undefined) {
    this.#options = options
    this.#table = table
    this.#policy = policy
    this.#runner = new TaskRunner(options)
  }

  get running(): number {
    return this.#runner.running
  }

  async close({ timeoutMs = 0 }: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    await this.#runner.close(timeoutMs)
  }

  /** Sets the address by which the tasks of a request without a token are counted. */
  countBy(exchange: Exchange, address: string | undefined): void {
    if (address !== undefined) this.#addresses.set(exchange, address)
  }

  /** Serves `tools/call` of a tool that may run as a task. */
  async call(
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
    const startedAt = telemetry.now()
    try {
      let answers: Pick<TaskRun, 'responses' | 'state'> = { responses: {}, state: undefined }
      if (before !== undefined) {
        const asked = await runRound(serving, sdk, tool.definition.name, async (context) => {
          const returned: unknown = await before(args.value, context)
          if (returned !== undefined && !isInputRequired(returned))
            throw new TypeError('beforeTask must return the result of context.inputRequired(), or undefined')
          const { inputResponses: responses, state } = context
          answers = { responses, state: state === undefined ? undefined : JSON.stringify(state) }
          return returned as InputRequired | undefined
        })
        if (asked !== undefined) return asked as InputRequiredResult
      }
      const created = await this.#create(serving, request, sdk, server, tool, answers)
      if (created.isError === true) failed(undefined, undefined)
      return created
    } catch (thrown) {
      if (isStateRefusal(thrown)) throw thrown
      const { result, reference } = failedResult(thrown)
      failed(thrown, reference)
      return result
    }

    async function validated(): Promise<{ readonly value: unknown } | undefined> {
      try {
        return {
          value:
            permitted === undefined
              ? await toolArguments(tool, request.params.arguments ?? {})
              : argumentsOf(permitted),
        }
      } catch {
        return undefined
      }
    }

    function failed(thrown: unknown, reference: string | undefined): void {
      const timed = { method: request.method, params: request.params, id: sdk.mcpReq.id, startedAt }
      telemetry.toolFailed(timed, thrown === undefined ? undefined : { thrown }, reference)
    }
  }

  async #create(
    serving: Serving,
    request: CallToolRequest,
    sdk: ServerContext,
    server: Server,
    tool: TaskTool,
    answers: Pick<TaskRun, 'responses' | 'state'>,
  ): Promise<CallToolResult> {
    if (this.#runner.isClosed) return errorResult('The server is shutting down. Try again later.')
    const { exchange } = serving
    const { maxPerOwner } = this.#options
    const key = { owner: ownerHash(exchange), id: randomBytes(24).toString('base64url') }
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
    const address = this.#addresses.get(exchange)
    const countedFor = address === undefined ? key.owner : hashOf(address)
    switch (await this.#runner.stored.add(key, record, countedFor, maxPerOwner)) {
      case 'owner-full':
        return errorResult(
          `There are ${maxPerOwner} tasks of this user, which is the maximum. Try again when one of them has expired.`,
        )
      case 'store-full':
        return errorResult('The server has no room for another task. Try again later.')
    }
    exchange.telemetry.taskCreated({ tool: record.tool, reference: referenceOf(key) })
    this.#runner.run({ serving, sdk, server, key, record, ...answers })
    // The type of the SDK does not know that the result of a call may be a task.
    return { resultType: 'task', ...taskOf(key.id, record) } as unknown as CallToolResult
  }

  /**
   * Looks up the task that a request names, and checks the scopes of its tool and the policy. Keeps the verdict for the handler
   * of the method.
   * @param message a request of `tasks/get`, `tasks/update`, or `tasks/cancel`
   * @returns the scopes that the token lacks. If there are any, the request must be refused.
   */
  async authorize(
    exchange: Exchange,
    message: JsonRpcRequest & { readonly params?: unknown },
  ): Promise<readonly string[]> {
    const { method, params } = message
    const { taskId, inputResponses, _meta } = isRecord(params) ? params : {}
    // The handler responds with an error that does not depend on the task.
    if (!declaresTasks(_meta)) return []
    let access: TaskAccess | { readonly scopes: readonly string[] }
    if (typeof taskId !== 'string') access = { error: invalidParams('taskId must be a string') }
    else if (method === 'tasks/update' && !isRecord(inputResponses))
      access = { error: invalidParams('inputResponses must be an object') }
    else access = await this.#find(exchange, taskId, message)
    if ('scopes' in access) return access.scopes
    this.#access.set(exchange, access)
    return []
  }

  /** Finds a task of the owner of a request, if the token may use its tool. Never rejects. */
  async #find(
    exchange: Exchange,
    id: string,
    request: JsonRpcRequest,
  ): Promise<TaskAccess | { readonly scopes: readonly string[] }> {
    const key = { owner: ownerHash(exchange), id }
    let record: TaskRecord | undefined
    try {
      record = id.length > MAX_ID ? undefined : await this.#runner.stored.load(key, exchange.telemetry)
    } catch {
      return { error: unavailable() }
    }
    const tool = record && this.#table.tools.get(record.tool)
    if (record === undefined || tool?.task === undefined) return { error: notFound() }
    const { gate, auth } = exchange
    if (gate === undefined || auth === undefined) {
      if (tool.scopes.length > 0) return { error: notFound() }
    } else if (!gate.permits(auth.scopes, tool.scopes)) return { scopes: tool.scopes }
    const denied = this.#policy && (await denialOf(this.#policy, exchange, tool, record))
    if (denied === undefined) return { key, record }
    const call = { ...request, params: { name: record.tool } }
    exchange.telemetry.policyDenied(call, 'call', denied.failure)
    if (denied.scopes.length > 0) return { scopes: [...new Set([...tool.scopes, ...denied.scopes])] }
    return { error: new ProtocolError(DENIED_CODE, textOf('tool', denied)) }
  }

  #accessed({ exchange }: Serving, { mcpReq }: ServerContext): Exclude<TaskAccess, { error: unknown }> {
    // The methods do not exist in the 2025 revisions, which have no envelope.
    if (mcpReq.envelope === undefined)
      throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
    if (!declaresTasks(mcpReq.envelope)) throw missingTasks()
    const access = this.#access.get(exchange) ?? { error: notFound() }
    if ('error' in access) throw access.error
    return access
  }

  /** Serves `tasks/get`. */
  get(serving: Serving, sdk: ServerContext): Record<string, unknown> {
    const { key, record } = this.#accessed(serving, sdk)
    return detailedTaskOf(key.id, record)
  }

  /** Serves `tasks/cancel`. It has no effect on a task that has ended. */
  async cancel(serving: Serving, sdk: ServerContext): Promise<Record<string, unknown>> {
    const { key } = this.#accessed(serving, sdk)
    await available(
      this.#runner.stored.change(
        key,
        (record) => (isTerminal(record) ? undefined : changed(record, { status: 'cancelled' })),
        (canceled) => {
          this.#runner.abort(key)
          serving.exchange.telemetry.taskEnded('cancelled', endOf(key, canceled))
        },
      ),
    )
    return {}
  }

  /**
   * Serves `tasks/update`. Answers to requests that are not open are ignored. When all requests have an answer, the handler runs
   * again, on the node and with the token of this request.
   */
  async update(serving: Serving, sdk: ServerContext, server: Server): Promise<Record<string, unknown>> {
    const { key } = this.#accessed(serving, sdk)
    const given = sdk.mcpReq.inputResponses ?? {}
    if (Object.keys(given).length === 0) return {}
    if (this.#runner.isClosed)
      throw new ProtocolError(
        ProtocolErrorCode.InternalError,
        'The server is shutting down. Try again later.',
      )
    let responses: Readonly<Record<string, unknown>> = {}
    const answer = (record: TaskRecord): TaskRecord | undefined => {
      const answered = withAnswers(record, given)
      if (answered === undefined || Object.keys(answered.requests).length > 0)
        return answered && changed(record, { status: 'input_required', input: answered })
      responses = namedResponses(answered.responses)
      const { input: _input, ...rest } = record
      return changed(rest, { status: 'working', node: this.#runner.stored.node, round: record.round + 1 })
    }
    const goOn = (record: TaskRecord): void => {
      if (record.status === 'working')
        this.#runner.run({ serving, sdk, server, key, record, responses, state: record.state })
    }
    await available(this.#runner.stored.prepare().then(() => this.#runner.stored.change(key, answer, goOn)))
    return {}
  }

  /**
   * Returns those of the given tasks that a stream may watch: the tasks of the owner whose tools the token may use.
   * @param ids the ids that the client has sent
   */
  async watchable(
    exchange: Exchange,
    ids: readonly unknown[],
    request: JsonRpcRequest,
  ): Promise<readonly TaskKey[]> {
    const known = [...new Set(ids)].filter((id) => typeof id === 'string').slice(0, MAX_WATCHED)
    const found = await Promise.all(known.map((id) => this.#find(exchange, id, request)))
    return found.flatMap((one) => ('key' in one ? [one.key] : []))
  }

  /** Calls `listener` with the tasks, and again when they change. Returns a function that ends this. */
  watch(keys: readonly TaskKey[], listener: TaskListener): () => void {
    return this.#runner.watch(keys, listener)
  }
}

async function denialOf(
  policy: Policy,
  exchange: Exchange,
  tool: ToolEntry,
  record: TaskRecord,
): Promise<Denied | undefined> {
  try {
    const args = (await toolArguments(tool, record.args)) as Readonly<Record<string, unknown>>
    return await policy.denial(exchange, { purpose: 'call', kind: 'tool', name: tool.definition.name, args })
  } catch (thrown) {
    // The schema has changed since the call.
    return { text: undefined, scopes: [], failure: { thrown } }
  }
}

/**
 * Returns the input of a task with further answers, or undefined if there are none to its open requests.
 * @throws {ProtocolError} -32602 if the answers are too large.
 */
function withAnswers(
  { status, input }: TaskRecord,
  given: Readonly<Record<string, unknown>>,
): TaskRecord['input'] {
  if (status !== 'input_required' || input === undefined) return undefined
  const requests = { ...input.requests }
  const responses = { ...input.responses }
  let isAnswered = false
  for (const [key, response] of Object.entries(given)) {
    if (!Object.hasOwn(requests, key)) continue
    delete requests[key]
    responses[key] = response
    isAnswered = true
  }
  if (!isAnswered) return undefined
  if (JSON.stringify(responses).length > MAX_ANSWERS)
    throw invalidParams(`inputResponses must have at most ${MAX_ANSWERS} characters`)
  return { requests, responses }
}

/** Waits for the store. Every error but those for the client becomes one that does not show its cause. */
async function available<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise
  } catch (error) {
    throw error instanceof ProtocolError ? error : unavailable()
  }
}

function ownerHash({ auth }: Exchange): string {
  return hashOf(ownerOf(auth))
}

function invalidParams(problem: string): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, `Invalid params: ${problem}`)
}

function notFound(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InvalidParams, 'Task not found')
}

function unavailable(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InternalError, 'Tasks are not available. Try again later.')
}
