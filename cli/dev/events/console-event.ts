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

/** Returns the duration in milliseconds, or `undefined` if the event has none. */
export function durationOf({ attributes }: ConsoleEvent): number | undefined {
  const duration = attributes?.duration_ms
  return typeof duration === 'number' && Number.isFinite(duration) && duration >= 0 ? duration : undefined
}

/** Returns the requested operation, such as `tools/call search`, or `undefined` if it is unknown. */
export function operationOf({ attributes = {} }: ConsoleEvent): string | undefined {
  const method = attributes['mcp.method.name']
  if (method === undefined) return undefined
  const target =
    attributes['gen_ai.tool.name'] ?? attributes['gen_ai.prompt.name'] ?? attributes['mcp.resource.uri']
  return target === undefined ? attributeText(method) : `${attributeText(method)} ${attributeText(target)}`
}
