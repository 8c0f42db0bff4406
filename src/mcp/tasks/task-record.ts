import type { CallToolResult, InputRequest } from '@modelcontextprotocol/server'
import { hashOf } from '../operations/limits/caller-key.ts'
import type { ObservedTask } from '../wire/exchange.ts'
import type { TaskKey } from './task-store.ts'

/** The identifier of the extension in the capabilities of clients and servers. */
export const TASKS_EXTENSION = 'io.modelcontextprotocol/tasks'

export type TaskStatus = 'working' | 'input_required' | 'completed' | 'failed' | 'cancelled'

/** A JSON-RPC error. */
export interface TaskError {
  readonly code: number
  readonly message: string
  readonly data?: unknown
}

/** The input that a handler has asked for, by the keys that clients see. */
export interface TaskInput {
  /** The requests without an answer. */
  readonly requests: Readonly<Record<string, InputRequest>>
  /** The answers so far. */
  readonly responses: Readonly<Record<string, unknown>>
}

/** A task as it is stored. */
export interface TaskRecord {
  readonly status: TaskStatus
  readonly statusMessage?: string
  /** Milliseconds since 1970. */
  readonly createdAt: number
  readonly updatedAt: number
  readonly ttlMs: number
  readonly pollIntervalMs: number
  /** The name of the tool. */
  readonly tool: string
  /** The arguments as the client sent them. */
  readonly args: Readonly<Record<string, unknown>>
  /** The node that runs the task. Absent if no node does. */
  readonly node?: string
  /** The number of times that the handler was called. */
  readonly round: number
  /** The state that the handler keeps between two rounds. */
  readonly state?: string
  readonly input?: TaskInput
  readonly result?: CallToolResult
  readonly error?: TaskError
}

export function isTerminal({ status }: Pick<TaskRecord, 'status'>): boolean {
  return status === 'completed' || status === 'failed' || status === 'cancelled'
}

/** Returns the members that `tools/call` returns for a new task. */
export function taskOf(id: string, record: TaskRecord): Record<string, unknown> {
  const { status, statusMessage, createdAt, updatedAt, ttlMs, pollIntervalMs } = record
  return {
    taskId: id,
    status,
    ...(statusMessage !== undefined && { statusMessage }),
    createdAt: new Date(createdAt).toISOString(),
    lastUpdatedAt: new Date(updatedAt).toISOString(),
    ttlMs,
    pollIntervalMs,
  }
}

/** Returns the members that `tasks/get` and `notifications/tasks` have. */
export function detailedTaskOf(id: string, record: TaskRecord): Record<string, unknown> {
  const { status, input, result, error } = record
  return {
    ...taskOf(id, record),
    ...(status === 'input_required' && { inputRequests: input?.requests ?? {} }),
    // A call would have returned the result with this type, and clients expect it.
    ...(status === 'completed' && { result: { resultType: 'complete', ...result } }),
    ...(status === 'failed' && { error }),
  }
}

/** Returns a record with the members of `change`, and without those that a terminal task does not need. */
export function changed(
  record: TaskRecord,
  change: Partial<TaskRecord> & Pick<TaskRecord, 'status'>,
): TaskRecord {
  // The clock may have been set back.
  const updatedAt = Math.max(record.updatedAt, Date.now())
  if (!isTerminal(change)) return { ...record, updatedAt, ...change }
  const { node: _node, state: _state, input: _input, statusMessage: _message, ...kept } = record
  return { ...kept, updatedAt, ...change }
}

/** Separates the name that a handler has given a request from the number of the round. */
const ROUND_SEPARATOR = '#'

/**
 * Returns input requests by the keys that clients see. Clients may ignore a key that they have seen before, so the keys of each
 * round differ.
 */
export function keyedRequests(
  requests: Readonly<Record<string, InputRequest>>,
  round: number,
): Record<string, InputRequest> {
  return Object.fromEntries(
    Object.entries(requests).map(([name, request]) => [`${name}${ROUND_SEPARATOR}${round}`, request]),
  )
}

/** Returns answers by the names that the handler has given the requests. */
export function namedResponses(responses: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(
    Object.entries(responses).map(([key, response]) => [
      key.slice(0, key.lastIndexOf(ROUND_SEPARATOR)),
      response,
    ]),
  )
}

/** Returns the end of a task, for telemetry. */
export function endOf(key: TaskKey, { tool, createdAt }: TaskRecord, errorType?: string): ObservedTask {
  return { tool, reference: referenceOf(key), durationMs: Math.max(0, Date.now() - createdAt), errorType }
}

/** Returns a name for a task that does not let anyone read it. */
export function referenceOf({ id }: TaskKey): string {
  return hashOf(id).slice(0, 16)
}

/** Returns a key as a string. */
export function nameOf({ owner, id }: TaskKey): string {
  return `${owner}:${id}`
}
