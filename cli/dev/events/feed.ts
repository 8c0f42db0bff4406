import { isRecord } from '../../../src/options/value-kinds.ts'
import type { ConsoleEvent } from './console-event.ts'

/** The sender of events that `dev` has observed itself. It has no statistics. */
export const OBSERVER: Readonly<Record<string, unknown>> = { observer: true }

/** A message from the server's transport. It is parsed JSON from another process. */
export interface Feed {
  /** The process and the service that sent the message, or {@link OBSERVER}. */
  readonly sender: Readonly<Record<string, unknown>>
  /** The result of `manager.stats()`. */
  readonly stats: Readonly<Record<string, unknown>> | undefined
  readonly events: readonly ConsoleEvent[]
}

/** Parses the body of a request of the transport. Returns `undefined` if it is invalid. */
export function readFeed(body: string): Feed | undefined {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!isRecord(value)) return undefined
  const { sender, stats, events } = value
  if (!isRecord(sender) || !(stats === undefined || isRecord(stats)) || !Array.isArray(events))
    return undefined
  return events.every(isEvent) ? { sender, stats, events } : undefined
}

const STRINGS = ['name', 'time', 'level', 'sessionId']
const RECORDS = ['attributes', 'actor', 'error', 'request']

function isEvent(value: unknown): value is ConsoleEvent {
  return (
    isRecord(value) &&
    STRINGS.every((member) => typeof value[member] === 'string') &&
    RECORDS.every((member) => value[member] === undefined || isRecord(value[member]))
  )
}
