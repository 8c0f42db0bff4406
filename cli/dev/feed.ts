import { isRecord } from '../../src/options/value-kinds.ts'
/** A message from the server's transport. It is parsed JSON from another process. */
export interface Feed {
  /** The process and the service that sent the message. */
  readonly sender: Readonly<Record<string, unknown>>
  /** The result of `manager.stats()`. */
  readonly stats: Readonly<Record<string, unknown>> | undefined
  readonly events: readonly Readonly<Record<string, unknown>>[]
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

const STRING_MEMBERS = ['name', 'time', 'level', 'sessionId']

function isEvent(value: unknown): value is Readonly<Record<string, unknown>> {
  return isRecord(value) && STRING_MEMBERS.every((member) => typeof value[member] === 'string')
}
