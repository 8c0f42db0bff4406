import { attributeText, type ConsoleEvent, lookUp, operationOf, whoOf } from './event.ts'
import { type EventKind, kindOf } from './kinds.ts'

/** A line of the page, for an event or for a step of a client. */
export interface Row extends Pick<EventKind, 'tone' | 'word' | 'title' | 'hint'> {
  /** The sequence number of the event. */
  readonly number: number
  readonly time: string
  /** The values that were expected and received. */
  readonly facts: readonly string[]
}

/** The line of an event. */
export interface EventRow extends Row, EventKind {
  /** The requested operation, such as `tools/call search`. */
  readonly operation?: string | undefined
  /** The text after the title: the operation and the user. */
  readonly about: string
  readonly ms?: number | undefined
  /** `true` if `mcp-gatekit doctor` has caused the event. It does not count. */
  readonly isProbe: boolean
  readonly event: ConsoleEvent
}

/** The part of the server's metadata document that tokens are compared with. */
export interface Expected {
  readonly resource?: string | undefined
  readonly authorizationServers?: readonly string[]
}

/** The `User-Agent` of `mcp-gatekit doctor`, and its name as a client. */
const DOCTOR = 'mcp-gatekit-doctor'

/** The claims that explain a reason. */
const CLAIMS: Readonly<Record<string, readonly string[]>> = {
  expired: ['exp'],
  wrong_resource: ['aud', 'iss'],
  invalid: ['iss', 'aud', 'exp'],
}

/** Returns the line of an event. @param expected the metadata of the server at the time of the event */
export function eventRow(number: number, event: ConsoleEvent, expected: Expected): EventRow {
  const { attributes = {}, request } = event
  const kind = kindOf(event)
  const operation = operationOf(event)
  const isAbout = kind.group === 'gate' && kind.tone === 'bad'
  const { duration_ms: ms, 'user_agent.original': agent, 'mcp.client.name': client, client_name } = attributes
  const names = [request?.agent, agent, client, client_name]
  return {
    ...kind,
    number,
    time: event.time,
    facts: event.name === 'kit.mcp.auth.refused' ? factsOf(event, expected) : [],
    operation,
    about: [isAbout ? operation : undefined, whoOf(event)].filter(Boolean).join(' · '),
    ms: typeof ms === 'number' && Number.isFinite(ms) && ms >= 0 ? ms : undefined,
    isProbe: names.some((name) => typeof name === 'string' && name.startsWith(DOCTOR)),
    event,
  }
}

/** Returns the values that explain a refusal: those that were expected and received. */
export function factsOf(
  { attributes = {}, request, time }: ConsoleEvent,
  { resource, authorizationServers }: Expected,
  reason: unknown = attributes.reason,
): readonly string[] {
  const required = attributes['kit.mcp.auth.scopes.required']
  if (typeof required === 'string') {
    const granted = attributeText(attributes['kit.mcp.auth.scopes.granted'] ?? '')
    return [`scopes: expected ${attributeText(required) || 'none'}, received ${granted || 'none'}`]
  }
  const claims = request?.unverified ?? {}
  const expected: Readonly<Record<string, string | undefined>> = {
    exp: `after ${time}`,
    aud: resource,
    iss: authorizationServers?.join(' or '),
  }
  const names = (lookUp(CLAIMS, reason) ?? []).filter((name) => claims[name] !== undefined)
  return names.map((name) => {
    const wanted = expected[name] === undefined ? '' : `expected ${expected[name]}, `
    return `${name}: ${wanted}received ${attributeText(claims[name])} (unverified)`
  })
}
