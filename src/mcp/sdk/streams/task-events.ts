import { SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server'
import { detailedTaskOf, isTerminal, type TaskRecord } from '../../tasks/task-record.ts'
import type { TaskKey } from '../../tasks/task-store.ts'
import type { Tasks } from '../../tasks/tasks.ts'
import { messageEvent } from '../../wire/event-stream.ts'
import type { McpRequest } from '../../wire/mcp-request.ts'

export interface TaskEventOptions {
  readonly tasks: Pick<Tasks, 'watch'>
  /** The tasks that the stream may watch. */
  readonly watched: readonly TaskKey[]
  /** If the client has disconnected, the host may leave the stream open. */
  readonly client: Pick<McpRequest, 'onDisconnect'>
  /** The id of `subscriptions/listen`. */
  readonly id: string | number
}

const DATA = '\ndata: '

/**
 * Adds notifications about tasks to the stream with which the SDK serves `subscriptions/listen`, which does not know them. The
 * stream ends when the SDK's stream has ended and all tasks have ended, too.
 * @param source the stream of the SDK. Each chunk is one event.
 */
export function withTaskEvents(
  source: ReadableStream<Uint8Array>,
  { tasks, watched, client, id }: TaskEventOptions,
): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder()
  const decoder = new TextDecoder()
  const reader = source.getReader()
  const open = new Set(watched.map((key) => key.id))
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
        if (record === undefined || isTerminal(record)) open.delete(taskId)
        if (record !== undefined) controller.enqueue(encoder.encode(notification(taskId, record)))
        close(controller)
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

  function notification(taskId: string, record: TaskRecord): string {
    const params = { ...detailedTaskOf(taskId, record), _meta: { [SUBSCRIPTION_ID_META_KEY]: id } }
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
    const message = parsed(chunk)
    if (message?.method !== 'notifications/subscriptions/acknowledged') return chunk
    const { params } = message as { params?: { notifications?: object } }
    const notifications = { ...params?.notifications, taskIds: watched.map((key) => key.id) }
    const changed = { ...message, params: { ...params, notifications } }
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
