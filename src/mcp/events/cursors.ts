import { invalidParams } from './event-errors.ts'
import type { Position } from './store.ts'

const CURSOR = /^([\w-]{1,64})\.([0-9a-z]{1,11})$/

/** Returns the cursor of a position. Clients must not interpret it. */
export function cursorAt(epoch: string, position: Position): string {
  return `${epoch}.${position.toString(36)}`
}

/** @throws {ProtocolError} -32602 unless a cursor is a string, `null`, or absent. */
export function checkCursorType(cursor: unknown): void {
  if (cursor !== undefined && cursor !== null && typeof cursor !== 'string')
    throw invalidParams('cursor must be a string or null')
}

/**
 * Returns the position of a cursor that a client sends, and `undefined` for `null`, which means the current position. A cursor of
 * another log, or one that was never issued, is position -1: what came after it is not known.
 * @throws {ProtocolError} -32602 if it is not a string.
 */
export function positionOf(epoch: string, head: Position, cursor: unknown): Position | undefined {
  checkCursorType(cursor)
  if (typeof cursor !== 'string') return undefined
  const [, log, text = ''] = CURSOR.exec(cursor) ?? []
  const position = Number.parseInt(text, 36)
  return log === epoch && position <= head ? position : -1
}
