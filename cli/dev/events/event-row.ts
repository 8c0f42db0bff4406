import { type ConsoleEvent, durationOf, lookUp, operationOf, whoOf } from './console-event.ts'
import { type Expected, factsOf } from './facts.ts'
import { kindOf } from './kind-of.ts'
import type { EventRow } from './row.ts'

/** The `User-Agent` of `mcp-gatekit doctor`, and its name as a client. */
const DOCTOR = 'mcp-gatekit-doctor'

/** The conditions of `withSampling({ keep })`, in words. */
const KEPT: Readonly<Record<string, string>> = {
  level: 'kept because of the level of an event',
  slowerThanMs: 'kept because it was slow',
  names: 'kept because of the name of an event',
}

/** Returns the line of an event. @param expected the metadata of the server at the time of the event */
export function eventRow(number: number, event: ConsoleEvent, expected: Expected): EventRow {
  const kind = kindOf(event)
  const operation = operationOf(event)
  const hasOperation = kind.group === 'gate' && kind.tone === 'bad' && operation !== undefined
  const condition = event.attributes?.['kit.sampled_by']
  return {
    ...kind,
    number,
    time: event.time,
    facts: event.name === 'kit.mcp.auth.refused' ? factsOf(event, expected) : [],
    operation,
    about: [hasOperation ? operation : '', whoOf(event)].filter((part) => part !== '').join(' · '),
    ms: durationOf(event),
    kept: typeof condition === 'string' ? lookUp(KEPT, condition) : undefined,
    isProbe: isProbe(event),
    event,
  }
}

/** Returns `true` for an event about a request of `mcp-gatekit doctor`. */
function isProbe({ attributes = {}, request }: ConsoleEvent): boolean {
  const { 'user_agent.original': agent, 'mcp.client.name': client, client_name: name } = attributes
  return [request?.agent, agent, client, name].some(
    (one) => typeof one === 'string' && one.startsWith(DOCTOR),
  )
}
