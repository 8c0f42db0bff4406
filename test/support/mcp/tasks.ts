import { expect } from 'chai'
import { until } from '../until.ts'
import { type HeaderFields, modern, type WireAnswer, type WireRequest } from './wire.ts'

export const TASKS = 'io.modelcontextprotocol/tasks'

/** The capabilities of a client that supports tasks and input requests. */
export const WITH_TASKS = { extensions: { [TASKS]: {} }, elicitation: {}, sampling: {} }

const TERMINAL = ['completed', 'failed', 'cancelled']

/** A client of 2026-07-28 that supports tasks, as one user. */
export class TaskClient {
  readonly #send: (request: WireRequest) => Promise<WireAnswer>
  readonly #headers: HeaderFields
  readonly #capabilities: object

  constructor(
    server: { send(request: WireRequest): Promise<WireAnswer> },
    headers: HeaderFields = {},
    capabilities: object = WITH_TASKS,
  ) {
    this.#send = (request) => server.send(request)
    this.#headers = headers
    this.#capabilities = capabilities
  }

  /** Sends a request with the header `Mcp-Name` that the method needs. */
  async send(method: string, params: Record<string, unknown> = {}): Promise<WireAnswer> {
    const { taskId } = params
    const _meta = { 'io.modelcontextprotocol/clientCapabilities': this.#capabilities }
    const name = typeof taskId === 'string' ? { 'mcp-name': taskId } : {}
    return await this.#send(modern(method, { ...params, _meta }, { ...name, ...this.#headers }))
  }

  /** Returns the result of a method, or throws its error as the message of the assertion. */
  async result(method: string, params: Record<string, unknown> = {}): Promise<any> {
    const { message } = await this.send(method, params)
    expect(message.error, JSON.stringify(message.error)).to.equal(undefined)
    const { _meta, ...result } = message.result
    return result
  }

  /** Returns the error of a method. */
  async error(
    method: string,
    params: Record<string, unknown> = {},
  ): Promise<{ code: number; message: string }> {
    const { message } = await this.send(method, params)
    expect(message.error, JSON.stringify(message)).to.be.an('object')
    return message.error
  }

  call(name: string, args: Record<string, unknown> = {}, more: Record<string, unknown> = {}): Promise<any> {
    return this.result('tools/call', { name, arguments: args, ...more })
  }

  /** Calls a tool and returns the id of its task. */
  async start(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { resultType, taskId, ...rest } = await this.call(name, args)
    expect(resultType, JSON.stringify(rest)).to.equal('task')
    return taskId
  }

  get(taskId: string): Promise<any> {
    return this.result('tasks/get', { taskId })
  }

  cancel(taskId: string): Promise<any> {
    return this.result('tasks/cancel', { taskId })
  }

  update(taskId: string, inputResponses: Record<string, unknown>): Promise<any> {
    return this.result('tasks/update', { taskId, inputResponses })
  }

  /** Polls a task until it has `status`, or has ended. */
  async settled(taskId: string, status = ''): Promise<any> {
    let task: any
    await until(async () => {
      task = await this.get(taskId)
      return task.status === status || TERMINAL.includes(task.status)
    }, 5)
    return task
  }

  /** Calls a tool and returns its task when it has ended. */
  async run(name: string, args: Record<string, unknown> = {}): Promise<any> {
    return await this.settled(await this.start(name, args))
  }
}
