import { SUBSCRIPTION_ID_META_KEY } from '@modelcontextprotocol/server'
import { detailedTaskOf, isTerminal, type TaskRecord } from '../../tasks/task-record.ts'
import type { TaskKey } from '../../tasks/task-store.ts'
import type { TaskRequest, Tasks } from '../../tasks/tasks.ts'
import { messageEvent } from '../../wire/event-stream.ts'
import type { Exchange } from '../../wire/exchange.ts'
import type { EventOutlet, StreamFilter } from './event-outlet.ts'

export interface TaskEventOptions {
  readonly tasks: Tasks
  /** The request that has opened the stream. */
  readonly exchange: Exchange
  /** The tasks that the stream may watch. */
  readonly watched: readonly TaskKey[]
  /** The message `subscriptions/listen`. */
  readonly message: TaskRequest
}

const DATA = '\ndata: '

/**
 * Adds notifications about tasks to the stream with which the SDK serves `subscriptions/listen`, which does not know them. The
 * stream ends when the SDK's stream has ended and all tasks have ended, too. A task that the policy no longer permits counts as
 * ended. Each chunk of the SDK is one event.
 */
export function taskEvents(
  outlet: EventOutlet,
  { tasks, exchange, watched, message }: TaskEventOptions,
): StreamFilter {
  const encoder = new TextEncoder()
  const decoder = new TextDecoder()
  const open = new Set(watched.map((key) => key.id))
  /** The latest records of the tasks about which the policy is asked. */
  const asked = new Map<string, TaskRecord>()
  /** The times of the questions that were sent. A task is read again now and then, also without a change. */
  const sentQuestions = new Map<string, number>()
  let hasSourceEnded = false
  let last: Uint8Array | undefined
  let stop: (() => void) | undefined

  return {
    chunk(chunk) {
      const event = parsed(chunk)
      if (stop === undefined) {
        stop = tasks.runner.watch(watched, changed)
        return event?.method === 'notifications/subscriptions/acknowledged' ? acknowledged(event) : chunk
      }
      if (event?.result === undefined) return chunk
      last = chunk
      return undefined
    },
    end() {
      hasSourceEnded = true
      endIfDone()
    },
    stop: () => stop?.(),
  }

  function changed(taskId: string, record: TaskRecord | undefined): void {
    if (!open.has(taskId)) return
    if (record === undefined) drop(taskId)
    else if (asked.has(taskId)) asked.set(taskId, record)
    else if (record.status === 'input_required' && sentQuestions.get(taskId) === record.updatedAt) return
    else void send(taskId, record)
  }

  /** Sends the latest record of a task if the policy permits it, which may take a while. */
  async function send(taskId: string, first: TaskRecord): Promise<void> {
    asked.set(taskId, first)
    for (let record = first; ; ) {
      const verdict = tasks.mayBeSent(exchange, record, message)
      const mayBeSent = typeof verdict === 'boolean' ? verdict : await verdict
      if (!open.has(taskId)) return
      const latest = asked.get(taskId) as TaskRecord
      if (latest !== record) {
        record = latest
        continue
      }
      asked.delete(taskId)
      if (mayBeSent) outlet.write(notification(taskId, record))
      if (!mayBeSent || isTerminal(record)) drop(taskId)
      else if (record.status === 'input_required') sentQuestions.set(taskId, record.updatedAt)
      return
    }
  }

  /** Ends the notifications about a task. */
  function drop(taskId: string): void {
    open.delete(taskId)
    endIfDone()
  }

  function notification(taskId: string, record: TaskRecord): string {
    const params = { ...detailedTaskOf(taskId, record), _meta: { [SUBSCRIPTION_ID_META_KEY]: message.id } }
    return messageEvent(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/tasks', params }))
  }

  /** Ends the stream if there is nothing left to send. */
  function endIfDone(): void {
    if (!hasSourceEnded || open.size > 0) return
    if (last !== undefined) outlet.write(last)
    outlet.end()
  }

  /** Returns the acknowledgement with the ids of the tasks. */
  function acknowledged(first: { readonly params?: { readonly notifications?: object } }): Uint8Array {
    const notifications = { ...first.params?.notifications, taskIds: watched.map((key) => key.id) }
    const changed = { ...first, params: { ...first.params, notifications } }
    return encoder.encode(messageEvent(JSON.stringify(changed)))
  }

  function parsed(chunk: Uint8Array): Record<string, any> | undefined {
    const text = decoder.decode(chunk)
    const start = text.indexOf(DATA)
    return start < 0 ? undefined : JSON.parse(text.slice(start + DATA.length))
  }
}
