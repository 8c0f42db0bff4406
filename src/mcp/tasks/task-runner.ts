import { createHash, randomUUID } from 'node:crypto'
import {
  type CallToolResult,
  type InputRequiredResult,
  isInputRequiredResult,
  ProtocolErrorCode,
  type Server,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { Deadlines } from '../../oauth/deadlines.ts'
import { type LongTimer, setLongTimeout } from '../../timers.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import { isProtocolError, type SdkContext, type Serving } from '../operations/operation.ts'
import { callTool, errorResult } from '../operations/tool-call.ts'
import { NO_TELEMETRY, type RequestTelemetry, type TaskEnd } from '../wire/request-telemetry.ts'
import { shortened } from '../wire/shortened.ts'
import { missingCapability } from './task-capabilities.ts'
import type { ResolvedTaskOptions } from './task-options.ts'
import { changed, isTerminal, keyedRequests, type TaskError, type TaskRecord } from './task-record.ts'
import type { TaskKey, TaskStore } from './task-store.ts'

/** The interval at which a node with running tasks reports that it is alive. */
const BEAT_MS = 5_000
/** The time for which a report counts. */
const ALIVE_MS = 8_000
/** The maximum age of a report when a task starts: the next report must arrive before it no longer counts. */
const FRESH_MS = 2_000
/**
 * The time in which a node whose report no longer counts can report again before its tasks fail. It is longer than the interval of
 * reports and the pause in which clients of Redis reconnect, because the store may have been unavailable.
 */
const GRACE_MS = 7_000
/** The time in which the store must respond. */
const STORE_TIMEOUT_MS = 5_000
/** The pause before the result of a task is stored again, if the store is unavailable. */
const RETRY_MS = 1_000
/** The minimum time between two changes of the status message of a task. */
const PROGRESS_MS = 250
const MAX_STATUS_MESSAGE = 1_024
/** The maximum length of the message of an error, and of its data as JSON. */
const MAX_ERROR_TEXT = 4_000
/** The maximum number of attempts to change a task that others change at the same time. */
const MAX_ATTEMPTS = 32
/** The maximum number of rounds in a row in which a handler only keeps a state. */
const MAX_SILENT_ROUNDS = 100

const LOST = internal('The server that ran the task has stopped.')
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
}

interface Running {
  readonly key: TaskKey
  readonly round: number
  readonly controller: AbortController
  readonly telemetry: RequestTelemetry
  /** The status message that is not stored yet. */
  message: string | undefined
  storing: NodeJS.Timeout | undefined
  /** Ends the attempts to store the result. */
  isGivenUp: boolean
  done: Promise<void>
}

type Outcome =
  | { readonly result: CallToolResult }
  | { readonly input: InputRequiredResult; readonly round: number }
  | { readonly error: TaskError }

/** Called with a watched task, at first and after each change. The record is undefined if the task has expired. */
export type TaskListener = (id: string, record: TaskRecord | undefined) => void

/** The state of a task is stored with it, so it does not have to be encrypted. */
const PLAIN_STATES: Serving['states'] = {
  seal: async (state) => JSON.stringify(state),
  open: async (sealed) => JSON.parse(sealed),
}

/** The store has no room for a change. */
class StoreFullError extends Error {}

/** Runs tasks on this node, and reads and changes those of all nodes in the store. */
export class TaskRunner {
  readonly node: string = randomUUID()
  readonly #store: TaskStore
  readonly #maxResultBytes: number
  readonly #deadlines = new Deadlines(STORE_TIMEOUT_MS, (message) => new Error(message))
  readonly #running = new Map<string, Running>()
  /** The timers of the tasks whose node does not report. */
  readonly #suspected = new Map<string, NodeJS.Timeout>()
  readonly #graceMs: number
  readonly #watched = new Map<string, { readonly key: TaskKey; readonly listeners: Set<TaskListener> }>()
  #unsubscribe: (() => void) | undefined
  #timer: NodeJS.Timeout | undefined
  #beatAt = Number.NEGATIVE_INFINITY
  #isReloading = false
  #isClosed = false

  constructor(
    { store, maxResultBytes }: Pick<ResolvedTaskOptions, 'store' | 'maxResultBytes'>,
    graceMs: number = GRACE_MS,
  ) {
    this.#graceMs = graceMs
    this.#store = store
    this.#maxResultBytes = maxResultBytes
  }

  get running(): number {
    return this.#running.size
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  /** Stores a new task, which `run` must be called for. @throws if the store is unavailable */
  async add(key: TaskKey, record: TaskRecord, countedFor: string, max: number): ReturnType<TaskStore['add']> {
    await this.prepare()
    const expiresAtMs = record.createdAt + record.ttlMs
    return await this.#timed(this.#store.add(key, JSON.stringify(record), { expiresAtMs, countedFor, max }))
  }

  /** Lets the other nodes know that this one is alive. Must be called before a task names it. */
  async prepare(): Promise<void> {
    this.#connect()
    if (performance.now() - this.#beatAt < FRESH_MS) return
    await this.#timed(this.#store.beat(this.node, ALIVE_MS))
    this.#beatAt = performance.now()
  }

  /** Reads a task. If its node does not report, the task fails after a while. @throws if the store is unavailable */
  async load(key: TaskKey, telemetry: RequestTelemetry = NO_TELEMETRY): Promise<TaskRecord | undefined> {
    const stored = await this.#timed(this.#store.get(key))
    const record = stored && (JSON.parse(stored.value) as TaskRecord)
    const { node } = record ?? {}
    if (record?.status !== 'working' || node === undefined || node === this.node) return record
    if (await this.#timed(this.#store.isAlive(node))) return record
    const name = nameOf(key)
    if (this.#isClosed || this.#suspected.has(name)) return record
    const check = () =>
      void this.#failIfLost(key, node, telemetry).finally(() => this.#suspected.delete(name))
    this.#suspected.set(name, setTimeout(check, this.#graceMs).unref())
    return record
  }

  /** Marks a task as failed if its node still does not report. Never rejects. */
  async #failIfLost(key: TaskKey, node: string, telemetry: RequestTelemetry): Promise<void> {
    try {
      if (await this.#timed(this.#store.isAlive(node))) return
      const failed = await this.change(key, (current) =>
        current.status === 'working' && current.node === node ? failedTask(current, LOST) : undefined,
      )
      if (failed !== undefined) telemetry.taskEnded('failed', endOf(key, failed, 'node_lost'))
    } catch {
      // The store is unavailable. The node may not be able to report: the next request starts again.
    }
  }

  /**
   * Changes a task in one step.
   * @param change returns the changed task, or undefined to leave it as it is. It may be called more than once.
   * @returns the changed task, or undefined if it was not changed or does not exist
   * @throws if the store is unavailable or full
   */
  async change(
    key: TaskKey,
    change: (record: TaskRecord) => TaskRecord | undefined,
  ): Promise<TaskRecord | undefined> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      const stored = await this.#timed(this.#store.get(key))
      const next = stored && change(JSON.parse(stored.value))
      if (stored === undefined || next === undefined) return undefined
      const outcome = await this.#timed(this.#store.replace(key, stored.version, JSON.stringify(next)))
      if (outcome === 'store-full') throw new StoreFullError('The store of tasks is full')
      if (outcome === 'changed') continue
      this.#tell(key, next)
      tryOrUndefined(() => this.#store.announce?.(key))
      return next
    }
    throw new Error('A task was changed too often at the same time')
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
    const running: Running = {
      key,
      round,
      controller,
      telemetry: telemetry.request,
      message: undefined,
      storing: undefined,
      isGivenUp: false,
      done: Promise.resolve(),
    }
    this.#running.set(nameOf(key), running)
    this.#schedule()
    const expiry = setLongTimeout(
      () => this.#expire(running, record),
      Math.max(1, createdAt + ttlMs - Date.now()),
    )
    running.done = this.#finish(running, run, telemetry, expiry)
  }

  async #finish(
    running: Running,
    run: TaskRun,
    telemetry: ReturnType<RequestTelemetry['beginTask']>,
    expiry: LongTimer,
  ): Promise<void> {
    let errorType: string | undefined
    try {
      await telemetry.run(async () => {
        const outcome = await this.#outcomeOf(running, run, telemetry.request)
        errorType = await this.#keep(running, outcome)
      })
    } catch {
      errorType = '_OTHER'
    } finally {
      expiry.clear()
      clearTimeout(running.storing)
      if (this.#running.get(nameOf(running.key)) === running) this.#running.delete(nameOf(running.key))
      this.#schedule()
      telemetry.end(errorType)
    }
  }

  /** Calls the handler. Never rejects. */
  async #outcomeOf(running: Running, run: TaskRun, telemetry: RequestTelemetry): Promise<Outcome> {
    const { serving, sdk, server, record } = run
    const taskServing: Serving = {
      ...serving,
      exchange: { ...serving.exchange, telemetry, outflow: undefined },
      states: PLAIN_STATES,
      // The policy has permitted the request that starts the run.
      policy: undefined,
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
        const result = await callTool(taskServing, { method: 'tools/call', params }, context, server)
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

  /** Stores the outcome of a run. If the store is unavailable, tries again until the task expires. */
  async #keep(running: Running, given: Outcome): Promise<string | undefined> {
    let outcome = given
    for (;;) {
      // The task has expired, or was marked as failed.
      if (running.isGivenUp) return '_OTHER'
      try {
        const kept = await this.change(running.key, (record) =>
          isRun(record, running, this.node) ? withOutcome(record, outcome) : undefined,
        )
        const errorType = errorTypeOf(outcome)
        if (kept !== undefined && isTerminal(kept))
          running.telemetry.taskEnded(
            kept.status === 'failed' ? 'failed' : 'completed',
            endOf(running.key, kept, errorType),
          )
        return errorType
      } catch (error) {
        if (error instanceof StoreFullError && !('error' in outcome))
          outcome = { error: internal('The server has no room for the result of the task.') }
        else await pause(RETRY_MS)
      }
    }
  }

  #expire(running: Running, record: TaskRecord): void {
    running.isGivenUp = true
    running.controller.abort(new DOMException('The task has expired', 'TimeoutError'))
    running.telemetry.taskEnded('failed', endOf(running.key, record, 'timeout'))
  }

  /** Keeps the last report of progress as the status message. It is stored at most every 250 ms. */
  #progress(running: Running, params: Readonly<Record<string, unknown>>): void {
    const { progress, total, message } = params
    const numbers = total === undefined ? `${progress}` : `${progress}/${total}`
    running.message = shortened(typeof message === 'string' ? message : numbers, MAX_STATUS_MESSAGE)
    running.storing ??= setTimeout(() => {
      running.storing = undefined
      const { message: statusMessage } = running
      if (statusMessage === undefined) return
      running.message = undefined
      // A status message that cannot be stored is not important.
      this.change(running.key, (record) =>
        isRun(record, running, this.node) ? changed(record, { status: 'working', statusMessage }) : undefined,
      ).catch(() => undefined)
    }, PROGRESS_MS).unref()
  }

  /** Calls `listener` with the tasks, and again when they change. Returns a function that ends this. */
  watch(keys: readonly TaskKey[], listener: TaskListener): () => void {
    this.#connect()
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

  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true
    const all = [...this.#running.values()]
    if (all.length > 0 && timeoutMs > 0)
      await Promise.race([Promise.all(all.map(({ done }) => done)), pause(timeoutMs)])
    await Promise.all(
      [...this.#running.values()].map(async (running) => {
        const failed = await this.change(running.key, (record) =>
          isRun(record, running, this.node) ? failedTask(record, SHUT_DOWN) : undefined,
        ).catch(() => undefined)
        if (failed !== undefined)
          running.telemetry.taskEnded('failed', endOf(running.key, failed, 'shutdown'))
        running.isGivenUp = true
        running.controller.abort(new DOMException(SHUT_DOWN.message, 'AbortError'))
      }),
    )
    for (const timer of this.#suspected.values()) clearTimeout(timer)
    this.#suspected.clear()
    this.#unsubscribe?.()
    this.#unsubscribe = undefined
    this.#schedule()
  }

  /** Receives the changes of other nodes, once there is a task. */
  #connect(): void {
    if (this.#isClosed) return
    this.#unsubscribe ??= this.#store.subscribe?.((key) => void this.#reload(key))
  }

  /** Reads a task that may have changed. Passes it to its listeners, and aborts its run if it has ended. Never rejects. */
  async #reload(key: TaskKey): Promise<void> {
    const running = this.#running.get(nameOf(key))
    if (running === undefined && !this.#watched.has(nameOf(key))) return
    try {
      const record = await this.load(key)
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
    if (this.#running.size > 0)
      await this.#timed(this.#store.beat(this.node, ALIVE_MS)).then(
        () => {
          this.#beatAt = performance.now()
        },
        () => undefined,
      )
    // The store may be slow.
    if (this.#isReloading) return
    this.#isReloading = true
    const keys = new Map<string, TaskKey>()
    for (const one of [...this.#running.values(), ...this.#watched.values()])
      keys.set(nameOf(one.key), one.key)
    for (const key of keys.values()) await this.#reload(key)
    this.#isReloading = false
  }

  async #timed<T>(promise: Promise<T>): Promise<T> {
    return (await this.#deadlines.within(promise, 'The store of tasks')) as T
  }
}

/** Returns `true` if a task is still in the given run. */
function isRun(record: TaskRecord, { round }: Running, node: string): boolean {
  return record.status === 'working' && record.node === node && record.round === round
}

function withOutcome(record: TaskRecord, outcome: Outcome): TaskRecord {
  if ('error' in outcome) return failedTask(record, outcome.error)
  if ('result' in outcome) return changed(record, { status: 'completed', result: outcome.result })
  const { node: _node, state: _state, ...rest } = record
  const { input, round } = outcome
  const requests = keyedRequests(input.inputRequests ?? {}, round)
  return changed(rest, {
    status: 'input_required',
    round,
    input: { requests, responses: {} },
    ...(input.requestState !== undefined && { state: input.requestState }),
  })
}

function failedTask(record: TaskRecord, error: TaskError): TaskRecord {
  return changed(record, { status: 'failed', statusMessage: error.message, error })
}

function errorTypeOf(outcome: Outcome): string | undefined {
  if ('error' in outcome) return String(outcome.error.code)
  return 'result' in outcome && outcome.result.isError === true ? 'tool_error' : undefined
}

/** Returns the JSON-RPC error of a thrown value. Only the message of a `ProtocolError` is meant for clients. */
function errorOf(thrown: unknown): TaskError {
  if (!isProtocolError(thrown)) return internal('The tool failed.')
  return (
    tryOrUndefined(() => {
      const { code, message, data } = thrown
      const text = data === undefined ? undefined : JSON.stringify(data)
      return {
        code: Number.isSafeInteger(code) ? code : ProtocolErrorCode.InternalError,
        message: shortened(String(message), MAX_ERROR_TEXT),
        ...(text !== undefined && text.length <= MAX_ERROR_TEXT && { data: JSON.parse(text) }),
      }
    }) ?? internal('The tool failed.')
  )
}

function internal(message: string): TaskError {
  return { code: ProtocolErrorCode.InternalError, message }
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

/** Returns the end of a task, for telemetry. */
export function endOf(key: TaskKey, { tool, createdAt }: TaskRecord, errorType?: string): TaskEnd {
  return { tool, reference: referenceOf(key), durationMs: Math.max(0, Date.now() - createdAt), errorType }
}

/** Returns a name for a task that does not let anyone read it. */
export function referenceOf({ id }: TaskKey): string {
  return hashOf(id).slice(0, 16)
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

function nameOf({ owner, id }: TaskKey): string {
  return `${owner}:${id}`
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms).unref()
  })
}
