import { attributeText } from './attribute-text.ts'

/** An event as the server sent it, with its sequence number. */
export interface ConsoleEvent {
  readonly number: number
  readonly name: string
  readonly time: string
  readonly level: string
  readonly sessionId: string
  readonly actor?: { readonly type: string; readonly id?: string }
  readonly attributes?: Readonly<Record<string, unknown>>
  /** The HTTP request of the event, and the claims of its token, if the server runs in `mcp-gatekit dev`. */
  readonly request?: { readonly id: string; readonly unverified?: Readonly<Record<string, string>> }
  readonly error?: {
    readonly name: string
    readonly message: string
    readonly code?: string
    readonly stack?: string
  }
}

/** Returns the ID or the type of the actor. */
export function whoOf({ actor }: ConsoleEvent): string {
  return actor === undefined ? '' : (actor.id ?? actor.type)
}

/** Returns the duration in milliseconds, or `undefined` if the event has none. */
export function durationOf({ attributes }: ConsoleEvent): number | undefined {
  const duration = attributes?.duration_ms
  return typeof duration === 'number' && Number.isFinite(duration) && duration >= 0 ? duration : undefined
}

/** The conditions of `withSampling({ keep })`, in words. */
const KEPT: Readonly<Record<string, string>> = {
  level: 'kept because of the level of an event',
  slowerThanMs: 'kept because it was slow',
  names: 'kept because of the name of an event',
}

/** Returns the reason why sampling has kept the session of an event, or `undefined` if sampling did not decide by session. */
export function keptText({ attributes }: ConsoleEvent): string | undefined {
  const condition = attributes?.['kit.sampled_by']
  return typeof condition === 'string' && Object.hasOwn(KEPT, condition) ? KEPT[condition] : undefined
}

/** Returns the requested operation, such as `tools/call search`, or `undefined` if it is unknown. */
export function operationOf({ attributes = {} }: ConsoleEvent): string | undefined {
  const method = attributes['mcp.method.name']
  const target = ['gen_ai.tool.name', 'gen_ai.prompt.name', 'mcp.resource.uri']
    .map((key) => attributes[key])
    .find((value) => value !== undefined)
  if (method === undefined) return undefined
  return target === undefined ? attributeText(method) : `${attributeText(method)} ${attributeText(target)}`
}
