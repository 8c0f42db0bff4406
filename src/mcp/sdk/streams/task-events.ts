import { SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server'
import { detailedTaskOf, isTerminal, type TaskRecord } from '../../tasks/task-record.ts'
import type { TaskKey } from '../../tasks/task-store.ts'
import type { Tasks } from '../../tasks/tasks.ts'
import { messageEvent } from '../../wire/event-stream.ts'
import type { Exchange } from '../../wire/exchange.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'

export interface TaskEventOptions {
  readonly tasks: Pick<Tasks, 'watch' | 'mayBeSent'>
  /** The request that has opened the stream. */
  readonly exchange: Exchange
  /** The tasks that the stream may watch. */
  readonly watched: readonly TaskKey[]
  /** If the client has disconnected, the host may leave the stream open. */
  readonly client: Pick<McpRequest, 'onDisconnect'>
  /** The message `subscriptions/listen`. */
  readonly message: { readonly method: string; readonly id: string | number }
}

const DATA = '\ndata: '

/**
 * Adds notifications about tasks to the stream with which the SDK serves `subscriptions/listen`, which does not know them. The
 * stream ends when the SDK's stream has ended and all tasks have ended, too. A task that the policy no longer permits counts as
 * ended.
 * @param source the stream of the SDK. Each chunk is one event.
 */
export function withTaskEvents(
  source: ReadableStream<Uint8Array>,
  { tasks, exchange, watched, client, message }: TaskEventOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const decoder = new TextDecoder()
  const reader = source.getReader()
  const open = new Set(watched.map((key) => key.id))
  /** The latest records of the tasks about which the policy is asked. */
  const asked = new Map<string, TaskRecord>()
  /** The times of the questions that were sent. A task is read again now and then, also without a change. */
  const sentQuestions = new Map<string, number>()
  let isOpen = true
  let hasSourceEnded = false
  let last: Uint8Array | undefined
  let stop: (() => void) | undefined

  return new ReadableStream<Uint8Array>({
    start(controller) {
      client.onDisconnect(() => {
        if (!isOpen) return
        end()
        controller.close()
      })
      void pump(controller)
    },
    async cancel(reason) {
      end()
      await reader.cancel(reason)
    },
  })

  async function pump(controller: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    try {
      const first = await reader.read()
      if (!isOpen) return
      if (first.value !== undefined) controller.enqueue(acknowledged(first.value))
      stop = tasks.watch(watched, (taskId, record) => {
        if (!isOpen || !open.has(taskId)) return
        if (record === undefined) drop(controller, taskId)
        else if (asked.has(taskId)) asked.set(taskId, record)
        else if (record.status === 'input_required' && sentQuestions.get(taskId) === record.updatedAt) return
        else void send(controller, taskId, record)
      })
      for (let read = await reader.read(); !read.done; read = await reader.read()) {
        if (!isOpen) return
        if (isResult(read.value)) last = read.value
        else controller.enqueue(read.value)
      }
      hasSourceEnded = true
      close(controller)
    } catch (error) {
      if (!isOpen) return
      end()
      controller.error(error)
    }
  }

  /** Sends the latest record of a task if the policy permits it, which may take a while. */
  async function send(
    controller: ReadableStreamDefaultController<Uint8Array>,
    taskId: string,
    first: TaskRecord,
  ): Promise<void> {
    asked.set(taskId, first)
    for (let record = first; ; ) {
      const verdict = tasks.mayBeSent(exchange, record, message)
      const mayBeSent = typeof verdict === 'boolean' ? verdict : await verdict
      if (!isOpen || !open.has(taskId)) return
      const latest = asked.get(taskId) as TaskRecord
      if (latest !== record) {
        record = latest
        continue
      }
      asked.delete(taskId)
      if (mayBeSent) controller.enqueue(encoder.encode(notification(taskId, record)))
      if (!mayBeSent || isTerminal(record)) drop(controller, taskId)
      else if (record.status === 'input_required') sentQuestions.set(taskId, record.updatedAt)
      return
    }
  }

  /** Ends the notifications about a task. */
  function drop(controller: ReadableStreamDefaultController<Uint8Array>, taskId: string): void {
    open.delete(taskId)
    close(controller)
  }

  function notification(taskId: string, record: TaskRecord): string {
    const params = { ...detailedTaskOf(taskId, record), _meta: { [SUBSCRIPTION_ID_META_KEY]: message.id } }
    return messageEvent(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/tasks', params }))
  }

  /** Ends the stream if there is nothing left to send. */
  function close(controller: ReadableStreamDefaultController<Uint8Array>): void {
    if (!isOpen || !hasSourceEnded || open.size > 0) return
    if (last !== undefined) controller.enqueue(last)
    end()
    controller.close()
  }

  function end(): void {
    isOpen = false
    stop?.()
  }

  /** Returns the acknowledgement with the ids of the tasks. */
  function acknowledged(chunk: Uint8Array): Uint8Array {
    const first = parsed(chunk)
    if (first?.method !== 'notifications/subscriptions/acknowledged') return chunk
    const { params } = first as { params?: { notifications?: object } }
    const notifications = { ...params?.notifications, taskIds: watched.map((key) => key.id) }
    const changed = { ...first, params: { ...params, notifications } }
    return encoder.encode(messageEvent(JSON.stringify(changed)))
  }

  function isResult(chunk: Uint8Array): boolean {
    return parsed(chunk)?.result !== undefined
  }

  function parsed(chunk: Uint8Array): Record<string, unknown> | undefined {
    const text = decoder.decode(chunk)
    const start = text.indexOf(DATA)
    return start < 0 ? undefined : JSON.parse(text.slice(start + DATA.length))
  }
}
