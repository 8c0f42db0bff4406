import { setTimeout as pause } from 'node:timers/promises'
import {
  type CallToolResult,
  isInputRequiredResult,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { cutText } from '../../base/cut-text.ts'
import { type LongTimer, setLongTimeout } from '../../base/timers.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import type { McpTasks } from '../mcp-adapter.ts'
import type { SdkContext, Serving } from '../operations/operation.ts'
import { callTool, errorResult } from '../operations/tool-call.ts'
import type { RequestTelemetry } from '../wire/exchange.ts'
import { BEAT_MS, GRACE_MS, StoredTasks, StoreFullError } from './stored-tasks.ts'
import type { ResolvedTaskOptions } from './task-options.ts'
import {
  errorOf,
  errorTypeOf,
  failedTask,
  internal,
  missingCapability,
  type TaskOutcome,
  withOutcome,
} from './task-outcome.ts'
import { changed, endOf, isTerminal, nameOf, referenceOf, type TaskRecord } from './task-record.ts'
import type { TaskKey } from './task-store.ts'

/** The pause before the result of a task is stored again, if the store is unavailable. */
const RETRY_MS = 1_000
/** The minimum time between two changes of the status message of a task. */
const PROGRESS_MS = 250
const MAX_STATUS_MESSAGE = 1_024
/** The maximum number of rounds in a row in which a handler only keeps a state. */
const MAX_SILENT_ROUNDS = 100

const SHUT_DOWN = internal('The server was shut down before the task was completed.')

/** One run of a handler in a task. */
export interface TaskRun {
  readonly serving: Serving
  /** The context of the request that starts the run: the call, or the last answer. */
  readonly sdk: ServerContext
  readonly server: Pick<Server, 'projectCallToolResult'>
  readonly key: TaskKey
  readonly record: TaskRecord
  /** The answers, by the names that the handler has given the requests. */
  readonly responses: Readonly<Record<string, unknown>>
  readonly state: string | undefined
  /** Ends the call as one in progress, for the limits that have counted it. If undefined, they count the run as a call. */
  readonly end?: (() => void) | undefined
}

interface Running {
  readonly key: TaskKey
  readonly round: number
  readonly controller: AbortController
  readonly telemetry: RequestTelemetry
  /** The status message that is not stored yet. */
  message?: string | undefined
  storing?: NodeJS.Timeout | undefined
  /** Ends the attempts to store the result. */
  isGivenUp: boolean
  done: Promise<void>
}

/** Called with a watched task, at first and after each change. The record is undefined if the task has expired. */
export type TaskListener = (id: string, record: TaskRecord | undefined) => void

/** The state of a task is stored with it, so it does not have to be encrypted. */
const PLAIN_STATES: Serving['states'] = {
  seal: async (state) => JSON.stringify(state),
  open: async (sealed) => JSON.parse(sealed),
}

/** Runs tasks on this node, and notifies the streams that watch tasks of any node. */
export class TaskRunner implements McpTasks {
  /** The tasks of all nodes. */
  readonly stored: StoredTasks
  readonly #maxResultBytes: number
  readonly #running = new Map<string, Running>()
  readonly #watched = new Map<string, { readonly key: TaskKey; readonly listeners: Set<TaskListener> }>()
  #timer: NodeJS.Timeout | undefined
  #isReloading = false
  #isClosed = false

  constructor(
    { store, maxResultBytes }: Pick<ResolvedTaskOptions, 'store' | 'maxResultBytes'>,
    graceMs: number = GRACE_MS,
  ) {
    this.stored = new StoredTasks(store, graceMs, (key, record) =>
      record === undefined ? void this.#reload(key) : this.#tell(key, record),
    )
    this.#maxResultBytes = maxResultBytes
  }

  get running(): number {
    return this.#running.size
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Aborts the run of a task, if it runs on this node. */
  abort(key: TaskKey): void {
    this.#running.get(nameOf(key))?.controller.abort(new DOMException('The task was canceled', 'AbortError'))
  }

  /** Runs the handler of a task in the background. */
  run(run: TaskRun): void {
    const { key, record, serving } = run
    const { tool, round, createdAt, ttlMs } = record
    const controller = new AbortController()
    const telemetry = serving.exchange.telemetry.beginTask({ tool, reference: referenceOf(key) })
    const running: Running = { key, round, controller, telemetry, isGivenUp: false, done: Promise.resolve() }
    this.#running.set(nameOf(key), running)
    this.#schedule()
    const expiry = setLongTimeout(
      () => this.#expire(running, record),
      Math.max(1, createdAt + ttlMs - Date.now()),
    )
    running.done = this.#finish(running, run, expiry)
  }

  async #finish(running: Running, run: TaskRun, expiry: LongTimer): Promise<void> {
    const { key, telemetry } = running
    let errorType: string | undefined
    try {
      await telemetry.run(async () => {
        const outcome = await this.#outcomeOf(running, run)
        errorType = await this.#keep(running, outcome)
      })
    } catch {
      errorType = '_OTHER'
    } finally {
      run.end?.()
      expiry.clear()
      clearTimeout(running.storing)
      if (this.#running.get(nameOf(key)) === running) this.#running.delete(nameOf(key))
      this.#schedule()
      telemetry.finished({ errorType })
    }
  }

  /** Calls the handler. Never rejects. */
  async #outcomeOf(running: Running, run: TaskRun): Promise<TaskOutcome> {
    const { telemetry } = running
    const { serving, sdk, server, record } = run
    const taskServing: Serving = {
      ...serving,
      exchange: { ...serving.exchange, telemetry, outflow: undefined },
      states: PLAIN_STATES,
      // The policy has permitted the request that starts the run, and the user has confirmed the call.
      policy: undefined,
      confirmations: undefined,
      keepsProtocolErrors: true,
    }
    let { responses, state } = run
    let { round } = record
    try {
      for (let silent = 0; silent < MAX_SILENT_ROUNDS; silent++) {
        const context = contextOf(sdk, running.controller.signal, responses, state, (params) =>
          this.#progress(running, params),
        )
        const params = { name: record.tool, arguments: { ...record.args } }
        const counted = silent === 0 ? { ...taskServing, endCounted: run.end } : taskServing
        const result = await callTool(counted, { method: 'tools/call', params }, context, server)
        if (!isInputRequiredResult(result)) return { result: this.#bounded(result) }
        const requests = result.inputRequests ?? {}
        if (Object.keys(requests).length > 0) {
          const missing = missingCapability(sdk.mcpReq.envelope, requests)
          return missing === undefined ? { input: result, round } : { error: errorOf(missing) }
        }
        // The handler only keeps a state. It is called again with it.
        responses = {}
        state = result.requestState
        round++
        if (running.controller.signal.aborted) break
      }
      return { error: internal('The tool did not return a result.') }
    } catch (thrown) {
      return { error: errorOf(thrown) }
    }
  }

  /** Replaces a result that is too large. It is never cut. */
  #bounded(result: CallToolResult): CallToolResult {
    const bytes = Buffer.byteLength(JSON.stringify(result))
    const max = this.#maxResultBytes
    return bytes <= max
      ? result
      : errorResult(`The result has ${bytes} bytes. The maximum is ${max} bytes. Ask for less data.`)
  }

  /** Changes a task that is still in the given run. See `StoredTasks.change`. */
  async #change(
    { key, round }: Running,
    change: (record: TaskRecord) => TaskRecord,
    applied?: (record: TaskRecord) => void,
  ): Promise<void> {
    const isRun = ({ status, node, round: current }: TaskRecord): boolean =>
      status === 'working' && node === this.stored.node && current === round
    await this.stored.change(key, (record) => (isRun(record) ? change(record) : undefined), applied)
  }

  /** Stores the outcome of a run. If the store is unavailable, tries again until the task expires. */
  async #keep(running: Running, given: TaskOutcome): Promise<string | undefined> {
    let outcome = given
    for (;;) {
      // The task has expired, or was marked as failed.
      if (running.isGivenUp) return '_OTHER'
      try {
        const errorType = errorTypeOf(outcome)
        const recordEnd = (kept: TaskRecord): void => {
          if (!isTerminal(kept) || running.isGivenUp) return
          const event = kept.status === 'failed' ? 'task.failed' : 'task.completed'
          running.telemetry.recordTask(event, endOf(running.key, kept, errorType))
        }
        await this.#change(running, (record) => withOutcome(record, outcome), recordEnd)
        return errorType
      } catch (error) {
        if (error instanceof StoreFullError && !('error' in outcome))
          outcome = { error: internal('The server has no room for the result of the task.') }
        else await pause(RETRY_MS, undefined, { ref: false })
      }
    }
  }

  #expire(running: Running, record: TaskRecord): void {
    running.isGivenUp = true
    running.controller.abort(new DOMException('The task has expired', 'TimeoutError'))
    running.telemetry.recordTask('task.failed', endOf(running.key, record, 'timeout'))
  }

  /** Keeps the last report of progress as the status message. It is stored at most every 250 ms. */
  #progress(running: Running, params: Readonly<Record<string, unknown>>): void {
    const { progress, total, message } = params
    const numbers = total === undefined ? `${progress}` : `${progress}/${total}`
    running.message = cutText(typeof message === 'string' ? message : numbers, MAX_STATUS_MESSAGE, '…')
    running.storing ??= setTimeout(() => {
      running.storing = undefined
      const { message: statusMessage } = running
      if (statusMessage === undefined) return
      running.message = undefined
      // A status message that cannot be stored is not important.
      this.#change(running, (record) => changed(record, { status: 'working', statusMessage })).catch(
        () => undefined,
      )
    }, PROGRESS_MS).unref()
  }

  /** Calls `listener` with the tasks, and again when they change. Returns a function that ends this. */
  watch(keys: readonly TaskKey[], listener: TaskListener): () => void {
    this.stored.connect()
    for (const key of keys) {
      const watched = this.#watched.get(nameOf(key)) ?? { key, listeners: new Set() }
      watched.listeners.add(listener)
      this.#watched.set(nameOf(key), watched)
      void this.#reload(key)
    }
    this.#schedule()
    return () => {
      for (const key of keys) {
        const watched = this.#watched.get(nameOf(key))
        watched?.listeners.delete(listener)
        if (watched?.listeners.size === 0) this.#watched.delete(nameOf(key))
      }
      this.#schedule()
    }
  }

  async close({ timeoutMs = 0 }: { readonly timeoutMs?: number | undefined } = {}): Promise<void> {
    this.#isClosed = true
    const all = [...this.#running.values()]
    if (all.length > 0 && timeoutMs > 0)
      await Promise.race([
        Promise.all(all.map(({ done }) => done)),
        pause(timeoutMs, undefined, { ref: false }),
      ])
    await Promise.all(
      [...this.#running.values()].map(async (running) => {
        const recordEnd = (failed: TaskRecord): void =>
          running.telemetry.recordTask('task.failed', endOf(running.key, failed, 'shutdown'))
        await this.#change(running, (record) => failedTask(record, SHUT_DOWN), recordEnd).catch(
          () => undefined,
        )
        running.isGivenUp = true
        running.controller.abort(new DOMException(SHUT_DOWN.message, 'AbortError'))
      }),
    )
    this.stored.disconnect()
    this.#schedule()
  }

  /** Reads a task that may have changed. Passes it to its listeners, and aborts its run if it has ended. Never rejects. */
  async #reload(key: TaskKey): Promise<void> {
    try {
      const running = this.#running.get(nameOf(key))
      if (running === undefined && !this.#watched.has(nameOf(key))) return
      const record = await this.stored.load(key)
      if (running !== undefined && (record === undefined || isTerminal(record))) this.abort(key)
      this.#tell(key, record)
    } catch {
      // It is read again at the next beat.
    }
  }

  #tell(key: TaskKey, record: TaskRecord | undefined): void {
    for (const listener of this.#watched.get(nameOf(key))?.listeners ?? [])
      tryOrUndefined(() => listener(key.id, record))
  }

  /** Starts or stops the timer: it is needed while tasks run or are watched. */
  #schedule(): void {
    const isNeeded = this.#running.size > 0 || this.#watched.size > 0
    if (isNeeded === (this.#timer !== undefined)) return
    clearInterval(this.#timer)
    this.#timer = isNeeded ? setInterval(() => void this.#onBeat(), BEAT_MS).unref() : undefined
  }

  /** Reports that this node is alive, and reads the tasks whose changes it may have missed. */
  async #onBeat(): Promise<void> {
    if (this.#running.size > 0) await this.stored.beat().catch(() => undefined)
    // The store may be slow.
    if (this.#isReloading) return
    this.#isReloading = true
    for (const { key } of [...this.#running.values(), ...this.#watched.values()]) await this.#reload(key)
    this.#isReloading = false
  }
}

/** Returns the context of a call in a task. It does not depend on the request that starts the run, except for its envelope. */
function contextOf(
  { mcpReq }: ServerContext,
  signal: AbortSignal,
  inputResponses: Readonly<Record<string, unknown>>,
  state: string | undefined,
  onProgress: (params: Readonly<Record<string, unknown>>) => void,
): SdkContext {
  return {
    mcpReq: {
      id: mcpReq.id,
      method: 'tools/call',
      _meta: { progressToken: 0 },
      ...(mcpReq.envelope !== undefined && { envelope: mcpReq.envelope }),
      inputResponses: inputResponses as NonNullable<SdkContext['mcpReq']['inputResponses']>,
      requestState: (() => state) as SdkContext['mcpReq']['requestState'],
      signal,
      // Tasks do not have log messages.
      log: async () => undefined,
      notify: async (notification) => onProgress(notification.params ?? {}),
    },
  }
}
