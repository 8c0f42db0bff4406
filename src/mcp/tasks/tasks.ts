import { randomBytes } from 'node:crypto'
import {
  type CallToolRequest,
  type CallToolResult,
  type InputRequiredResult,
  isInputRequiredResult,
  ProtocolError,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { isRecord } from '../../base/options/value-kinds.ts'
import { ownerOf } from '../../oauth/owner.ts'
import { callerKey, hashOf } from '../operations/limits/caller-key.ts'
import {
  argumentsOf,
  DENIED_CODE,
  DENIED_TEXTS,
  invalidParams,
  runRound,
  type SdkContext,
  type Serving,
  validArguments,
} from '../operations/operation.ts'
import { type Denied, type Policy, recordDenial } from '../operations/policy.ts'
import { callTool, errorResult } from '../operations/tool-call.ts'
import { permitsScopes } from '../router/named-operations.ts'
import type { RouterTable } from '../router/router-table.ts'
import type { ToolEntry, ToolTask } from '../router/tool.ts'
import { type Exchange, isAnonymous, type Verdict } from '../wire/exchange.ts'
import type { ResolvedTaskOptions } from './task-options.ts'
import { declaresTasks, missingTasks } from './task-outcome.ts'
import {
  changed,
  detailedTaskOf,
  endOf,
  isTerminal,
  namedResponses,
  referenceOf,
  type TaskRecord,
  taskOf,
} from './task-record.ts'
import { type TaskRun, TaskRunner } from './task-runner.ts'
import type { TaskKey } from './task-store.ts'

/** The maximum size of the answers that a task waits with, in characters of JSON. */
const MAX_ANSWERS = 1_048_576
/** The maximum length of a task id that a client sends. */
const MAX_ID = 256
/** The maximum number of tasks that one stream watches. */
const MAX_WATCHED = 128

const SHUTTING_DOWN = 'The server is shutting down. Try again later.'

/** A tool that may run as a task. */
export type TaskTool = ToolEntry & { readonly task: ToolTask }

interface FoundTask {
  readonly key: TaskKey
  readonly record: TaskRecord
}

/** A request about a task. */
export interface TaskRequest {
  readonly method: string
  readonly id: string | number
}

/** Serves calls of tools that run as tasks, and `tasks/get`, `tasks/update`, and `tasks/cancel` (SEP-2663). */
export class Tasks {
  readonly #table: RouterTable
  readonly #policy: Policy | undefined
  readonly #options: ResolvedTaskOptions
  readonly runner: TaskRunner

  constructor(options: ResolvedTaskOptions, table: RouterTable, policy: Policy | undefined) {
    this.#table = table
    this.#policy = policy
    this.#options = options
    this.runner = new TaskRunner(options)
  }

  /** Serves `tools/call` of a tool that may run as a task. */
  async call(
    serving: Serving,
    request: CallToolRequest,
    sdk: ServerContext,
    server: Server,
    tool: TaskTool,
  ): Promise<CallToolResult | InputRequiredResult> {
    const isDeclared = declaresTasks(sdk.mcpReq.envelope)
    if (!isDeclared && tool.task.mode === 'required') throw missingTasks()
    // A task of an anonymous caller would have no owner.
    const runsAsTask =
      isDeclared && !isAnonymous(serving.exchange) && (tool.task.mode === 'required' || !this.runner.isClosed)
    if (!runsAsTask) return await callTool(serving, request, sdk, server)
    return await callTool(serving, request, sdk, server, async (round, call, args) => {
      // The run of the task counts as this call.
      const end = await tool.limiter?.begin({ exchange: serving.exchange, timed: call })
      let isRunning = false
      try {
        const answers = await answersBefore(tool, round, args)
        if ('question' in answers) return answers.question
        const created = await this.#create(tool, request, serving.exchange)
        if ('refusal' in created) return errorResult(created.refusal)
        this.runner.run({ serving, sdk, server, ...created, ...answers, end })
        isRunning = true
        // The type of the SDK does not know that the result of a call may be a task.
        const task = { resultType: 'task', ...taskOf(created.key.id, created.record) }
        return task as unknown as CallToolResult
      } finally {
        if (!isRunning) end?.()
      }
    })
  }

  /** Stores a new task. Returns the reason for the client if the store is full. */
  async #create(
    { task, definition }: TaskTool,
    request: CallToolRequest,
    exchange: Exchange,
  ): Promise<FoundTask | { readonly refusal: string }> {
    if (this.runner.isClosed) return { refusal: SHUTTING_DOWN }
    const { maxPerOwner, ttlMs } = this.#options
    const key = { owner: ownerHash(exchange), id: randomBytes(24).toString('base64url') }
    const now = Date.now()
    const record: TaskRecord = {
      status: 'working',
      createdAt: now,
      updatedAt: now,
      ttlMs: task.ttlMs ?? ttlMs,
      pollIntervalMs: task.pollIntervalMs,
      tool: definition.name,
      args: request.params.arguments ?? {},
      node: this.runner.stored.node,
      round: 1,
    }
    // Without OAuth, tasks are counted by address.
    const countedFor = exchange.auth === undefined ? hashOf(callerKey(exchange, 'address').key) : key.owner
    const added = await this.runner.stored.add(key, record, countedFor, maxPerOwner)
    if (added === 'owner-full')
      return {
        refusal: `There are ${maxPerOwner} tasks of this user, which is the maximum. Try again when one of them has expired.`,
      }
    if (added === 'store-full')
      return { refusal: 'The server has no room for another task. Try again later.' }
    exchange.telemetry.recordTask('task.created', { tool: record.tool, reference: referenceOf(key) })
    return { key, record }
  }

  /**
   * Looks up the task that a request names, and checks the scopes of its tool and the policy. Keeps the verdict for the handler
   * of the method.
   * @param message a request of `tasks/get`, `tasks/update`, or `tasks/cancel`
   * @returns the scopes that the token lacks. If there are any, the request must be refused.
   */
  async authorize(
    exchange: Exchange,
    message: TaskRequest & { readonly params?: unknown },
  ): Promise<readonly string[]> {
    const { method, params } = message
    const { taskId, inputResponses, _meta } = isRecord(params) ? params : {}
    // The handler responds with an error that does not depend on the task.
    if (!declaresTasks(_meta)) return []
    let verdict: Verdict
    try {
      if (typeof taskId !== 'string') throw invalidParams('Invalid params: taskId must be a string')
      if (method === 'tasks/update' && !isRecord(inputResponses))
        throw invalidParams('Invalid params: inputResponses must be an object')
      const found = await this.#find(exchange, taskId, message)
      if ('scopes' in found) return found.scopes
      verdict = { args: found }
    } catch (thrown) {
      verdict = { failure: { thrown } }
    }
    exchange.verdicts = new Map([[message.id, verdict]])
    return []
  }

  /**
   * Finds a task of the owner of a request. Returns the scopes of its tool instead if the token lacks some of them.
   * @throws {ProtocolError} if the task does not exist, if the policy denies the call, or if the store is unavailable.
   */
  async #find(
    exchange: Exchange,
    id: string,
    request: TaskRequest,
  ): Promise<FoundTask | { readonly scopes: readonly string[] }> {
    const key = { owner: ownerHash(exchange), id }
    const record =
      id.length > MAX_ID ? undefined : await available(this.runner.stored.load(key, exchange.telemetry))
    const tool = record && this.#table.tools.get(record.tool)
    if (record === undefined || tool?.task === undefined) throw notFound()
    if (!permitsScopes(exchange, tool.scopes)) {
      if (exchange.gate === undefined || exchange.auth === undefined) throw notFound()
      return { scopes: tool.scopes }
    }
    const denied = this.#policy && (await denialOf(this.#policy, exchange, tool, record, request))
    if (denied === undefined) return { key, record }
    if (denied.scopes.length > 0) return { scopes: [...new Set([...tool.scopes, ...denied.scopes])] }
    throw new ProtocolError(DENIED_CODE, denied.text ?? DENIED_TEXTS.tool)
  }

  #accessed({ exchange }: Serving, { mcpReq }: ServerContext): FoundTask {
    // The methods do not exist in the 2025 revisions, which have no envelope.
    if (mcpReq.envelope === undefined)
      throw new ProtocolError(ProtocolErrorCode.MethodNotFound, 'Method not found')
    if (!declaresTasks(mcpReq.envelope)) throw missingTasks()
    const verdict = exchange.verdicts?.get(mcpReq.id)
    if (verdict === undefined) throw notFound()
    return argumentsOf(verdict) as FoundTask
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
      this.runner.stored.change(
        key,
        (record) => (isTerminal(record) ? undefined : changed(record, { status: 'cancelled' })),
        (canceled) => {
          this.runner.abort(key)
          serving.exchange.telemetry.recordTask('task.cancelled', endOf(key, canceled))
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
    if (this.runner.isClosed) throw new ProtocolError(ProtocolErrorCode.InternalError, SHUTTING_DOWN)
    let responses: Readonly<Record<string, unknown>> = {}
    const answer = (record: TaskRecord): TaskRecord | undefined => {
      const answered = withAnswers(record, given)
      if (answered === undefined || Object.keys(answered.requests).length > 0)
        return answered && changed(record, { status: 'input_required', input: answered })
      responses = namedResponses(answered.responses)
      const { input: _input, ...rest } = record
      return changed(rest, { status: 'working', node: this.runner.stored.node, round: record.round + 1 })
    }
    const goOn = (record: TaskRecord): void => {
      if (record.status === 'working' && !this.runner.isClosed)
        this.runner.run({ serving, sdk, server, key, record, responses, state: record.state })
    }
    await available(this.runner.stored.prepare().then(() => this.runner.stored.change(key, answer, goOn)))
    return {}
  }

  /**
   * Returns those of the given tasks that a stream may watch: the tasks of the owner whose tools the token may use.
   * @param ids the ids that the client has sent
   */
  async watchable(
    exchange: Exchange,
    ids: readonly unknown[],
    request: TaskRequest,
  ): Promise<readonly TaskKey[]> {
    const known = [...new Set(ids)].filter((id) => typeof id === 'string').slice(0, MAX_WATCHED)
    const found = await Promise.all(
      known.map((id) => this.#find(exchange, id, request).catch(() => undefined)),
    )
    return found.flatMap((one) => (one !== undefined && 'key' in one ? [one.key] : []))
  }

  /**
   * Returns `true` if a stream that watches a task may send its record. A result, an error, and a question are sent only while
   * the policy permits the call. Never rejects.
   */
  mayBeSent(exchange: Exchange, record: TaskRecord, request: TaskRequest): boolean | Promise<boolean> {
    const policy = this.#policy
    if (policy === undefined || record.status === 'working') return true
    const tool = this.#table.tools.get(record.tool)
    if (tool === undefined) return false
    return denialOf(policy, exchange, tool, record, request).then((denied) => denied === undefined)
  }
}

/** Runs `beforeTask`. Returns its question, or the answers and the state for the first round of the task. */
async function answersBefore(
  { task: { before }, definition }: TaskTool,
  { serving, sdk }: { readonly serving: Serving; readonly sdk: SdkContext },
  args: unknown,
): Promise<{ readonly question: InputRequiredResult } | Pick<TaskRun, 'responses' | 'state'>> {
  let answers: Pick<TaskRun, 'responses' | 'state'> = { responses: {}, state: undefined }
  if (before === undefined) return answers
  const asked = await runRound(serving, sdk, definition.name, async (context) => {
    const returned: unknown = await before(args, context)
    if (returned !== undefined && !isInputRequiredResult(returned))
      throw new TypeError('beforeTask must return the result of context.inputRequired(), or undefined')
    const { inputResponses: responses, state } = context
    answers = { responses, state: state === undefined ? undefined : JSON.stringify(state) }
    return returned
  })
  return asked === undefined ? answers : { question: asked as InputRequiredResult }
}

/** Asks the policy about a task as about a call of its tool. Never rejects. */
async function denialOf(
  policy: Policy,
  exchange: Exchange,
  tool: ToolEntry,
  record: TaskRecord,
  request: TaskRequest,
): Promise<Denied | undefined> {
  let denied: Denied | undefined
  try {
    const args = (await validArguments('tool', tool, record.args)) as Readonly<Record<string, unknown>>
    denied = await policy.denial(exchange, { purpose: 'call', kind: 'tool', name: record.tool, args })
  } catch (thrown) {
    // The schema has changed since the call.
    denied = { text: undefined, scopes: [], failure: { thrown } }
  }
  if (denied !== undefined) recordDenial(exchange, { ...request, params: { name: record.tool } }, denied)
  return denied
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
  const answers = Object.entries(given).filter(([key]) => Object.hasOwn(input.requests, key))
  if (answers.length === 0) return undefined
  const open = Object.entries(input.requests).filter(([key]) => !Object.hasOwn(given, key))
  const responses = { ...input.responses, ...Object.fromEntries(answers) }
  if (JSON.stringify(responses).length > MAX_ANSWERS)
    throw invalidParams(`Invalid params: inputResponses must have at most ${MAX_ANSWERS} characters`)
  return { requests: Object.fromEntries(open), responses }
}

/** Waits for the store. Every error but those for the client becomes one that does not show its cause. */
async function available<T>(promise: Promise<T>): Promise<T> {
  try {
    return await promise
  } catch (error) {
    if (error instanceof ProtocolError) throw error
    throw new ProtocolError(ProtocolErrorCode.InternalError, 'Tasks are not available. Try again later.')
  }
}

function ownerHash({ auth }: Exchange): string {
  return hashOf(ownerOf(auth))
}

function notFound(): ProtocolError {
  return invalidParams('Task not found')
}
