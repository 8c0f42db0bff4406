import { createHash } from 'node:crypto'
import type { ObservedTask } from '../wire/request-telemetry.ts'
import type { TaskRecord } from './task-record.ts'
import type { TaskKey } from './task-store.ts'

/** Returns the end of a task, for telemetry. */
export function endOf(key: TaskKey, { tool, createdAt }: TaskRecord, errorType?: string): ObservedTask {
  return { tool, reference: referenceOf(key), durationMs: Math.max(0, Date.now() - createdAt), errorType }
}

/** Returns a name for a task that does not let anyone read it. */
export function referenceOf({ id }: TaskKey): string {
  return hashOf(id).slice(0, 16)
}

export function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('base64url')
}

/** Returns a key as a string. */
export function nameOf({ owner, id }: TaskKey): string {
  return `${owner}:${id}`
}
