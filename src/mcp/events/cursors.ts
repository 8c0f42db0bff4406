import { invalidParams } from './event-errors.ts'
import type { LogState, Position, StoredSubscription } from './store.ts'

/** A position in the log with an epoch. */
export interface Cursor extends Pick<LogState, 'epoch'> {
  /** -1 if it is not known. */
  readonly position: Position
}

const CURSOR = /^([\w-]{1,64})\.([0-9a-z]{1,10})$/

/** Returns the text of a cursor. Clients must not interpret it. */
export function cursorText({ epoch }: Pick<LogState, 'epoch'>, position: Position): string {
  return `${epoch}.${position.toString(36)}`
}

/**
 * Reads the cursor that a client sends. Returns undefined for `null`, which means the current position.
 * @throws {ProtocolError} -32602 if it is not a string.
 */
export function cursorOf(cursor: unknown): Cursor | undefined {
  if (cursor === undefined || cursor === null) return undefined
  if (typeof cursor !== 'string') throw invalidParams('cursor must be a string or null')
  const [, epoch = '', position] = CURSOR.exec(cursor) ?? []
  return { epoch, position: position === undefined ? -1 : Number.parseInt(position, 36) }
}

/** Returns `true` if a cursor is one of this log. */
export function isOf({ epoch, position }: Cursor, log: LogState): boolean {
  return epoch === log.epoch && position >= 0 && position <= log.head
}

/** Returns the position before which everything was delivered or abandoned. */
export function watermark({ firstPending }: StoredSubscription, { head }: LogState): Position {
  return firstPending === undefined ? head : firstPending - 1
}
