/** What a server sent: events, and the counters of its manager. All of it is JSON that was read from outside. */
export interface Feed {
  /** Which process, and of what service. */
  readonly sender: Readonly<Record<string, unknown>>
  /** What `manager.stats()` says there. */
  readonly stats: Readonly<Record<string, unknown>> | undefined
  readonly events: readonly Readonly<Record<string, unknown>>[]
}

/** Reads the body of a POST of the transport; undefined when it is none. */
export function readFeed(body: string): Feed | undefined {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return undefined
  }
  if (!isObject(value)) return undefined
  const { sender, stats, events } = value
  if (!isObject(sender) || !(stats === undefined || isObject(stats)) || !Array.isArray(events))
    return undefined
  return events.every(isEvent) ? { sender, stats, events } : undefined
}

const TEXTS = ['name', 'time', 'level', 'sessionId']

function isEvent(value: unknown): value is Readonly<Record<string, unknown>> {
  return isObject(value) && TEXTS.every((member) => typeof value[member] === 'string')
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
