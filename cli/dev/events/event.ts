import { isRecord } from '../../../src/base/options/value-kinds.ts'
import { tryOrUndefined } from '../../../src/base/try-or-undefined.ts'

/** An event of the server. Its members beyond these depend on the sender, and attributes and texts can be any JSON. */
export interface ConsoleEvent {
  readonly name: string
  readonly time: string
  readonly level: string
  readonly sessionId: string
  readonly actor?: { readonly type: string; readonly id?: string }
  readonly attributes?: Attributes
  /** The HTTP request of the event, and the claims of its token, if the server runs in `mcp-gatekit dev`. */
  readonly request?: Attributes & { readonly id: string; readonly unverified?: Attributes }
  readonly error?: {
    readonly name: string
    readonly message: string
    readonly code?: string
    readonly stack?: string
  }
}

export type Attributes = Readonly<Record<string, unknown>>

/** The sender of events that `dev` has observed itself. */
export const OBSERVER: Attributes = { observer: true }

/** A message from the server's transport. It is parsed JSON from another process. */
export interface Feed {
  /** The process and the service that sent the message, or {@link OBSERVER}. */
  readonly sender: Attributes
  readonly events: readonly ConsoleEvent[]
}

/** The maximum length of an attribute in a line of the page. The details of an event show all of it. */
const MAX_TEXT = 2000

/** Returns an attribute as text. `String` throws for some objects, such as `{ "toString": null }`. */
export function attributeText(value: unknown): string {
  const text = typeof value === 'object' && value !== null ? JSON.stringify(value) : String(value)
  return text.slice(0, MAX_TEXT)
}

/** Returns the value of a table for a key of an event, or `undefined` if the table does not have the key. */
export function lookUp<Value>(table: Readonly<Record<string, Value>>, key: unknown): Value | undefined {
  const name = attributeText(key)
  return Object.hasOwn(table, name) ? table[name] : undefined
}

/** Returns the ID or the type of the actor. */
export function whoOf({ actor }: ConsoleEvent): string {
  return actor === undefined ? '' : attributeText(actor.id ?? actor.type)
}

/** Returns the requested operation, such as `tools/call search`, or `undefined` if it is unknown. */
export function operationOf({ attributes = {} }: ConsoleEvent): string | undefined {
  const method = attributes['mcp.method.name']
  const target =
    attributes['gen_ai.tool.name'] ?? attributes['gen_ai.prompt.name'] ?? attributes['mcp.resource.uri']
  return method === undefined ? undefined : textOf(method, target)
}

/** Joins attributes with spaces, without those that are missing. */
export function textOf(...values: readonly unknown[]): string {
  return values
    .filter((value) => value !== undefined)
    .map(attributeText)
    .join(' ')
}

/** Parses the body of a request of the transport. Returns `undefined` if it is invalid. */
export function readFeed(body: string): Feed | undefined {
  const value: unknown = tryOrUndefined(() => JSON.parse(body))
  if (!isRecord(value)) return undefined
  const { sender, events } = value
  if (!isRecord(sender) || !Array.isArray(events)) return undefined
  return events.every(isEvent) ? { sender, events } : undefined
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
