import type { ReachedLimit } from '../../../src/mcp/wire/request-telemetry.ts'
import { type Attributes, attributeText, type ConsoleEvent, lookUp, operationOf } from './console-event.ts'
import type { EventKind, Outcome, Tone } from './event-kind.ts'
import { MCP_EVENT_KINDS } from './mcp-event-kinds.ts'
import { forbiddenText, refusalText } from './refusals.ts'
import { requestKind } from './request-kind.ts'
import { signInKind } from './sign-in-kind.ts'

/** The events that are described in words. */
const KINDS: Readonly<Record<string, (event: ConsoleEvent) => EventKind>> = {
  'kit.mcp.auth.accepted': (event) =>
    withOutcome('accepted', gate('good', 'accepted', operationOf(event) ?? 'the token is valid')),
  'kit.mcp.auth.anonymous': (event) =>
    gate('plain', 'anonymous', `${operationOf(event) ?? 'a public operation'}, without a token`),
  'kit.mcp.auth.refused': ({ attributes = {}, request: { host, origin } = { id: '' } }) => {
    const reason = attributeText(attributes.reason)
    const isForbidden = (reason === 'host' && host) || (reason === 'origin' && origin)
    const text = isForbidden
      ? forbiddenText(reason === 'origin' ? origin : undefined, host)
      : refusalText(reason, attributes['kit.mcp.auth.invalid.cause'])
    const title = text === undefined ? reason : `${reason}: ${text.says}`
    // The first request of every client has no token.
    if (reason === 'missing') return withOutcome('asked', gate('plain', '401', title, text?.hint))
    return withOutcome('refused', gate('bad', 'refused', title, text?.hint))
  },
  'kit.mcp.auth.unavailable': (event) => {
    const hint = `The client got a 503 and will retry. Check that the authorization server is running.${problemOf(event, ' ')}`
    return withOutcome(
      'outage',
      gate('bad', 'outage', 'the access token could not be verified right now', hint),
    )
  },
  'kit.mcp.policy.denied': (event) => {
    const { 'kit.mcp.policy.reason': reason, 'kit.mcp.policy.purpose': purpose } = event.attributes ?? {}
    const outcome = purpose === 'list' ? 'failed' : 'refused'
    const operation = operationOf(event) ?? 'an operation'
    const says = reason === undefined ? '' : `: ${attributeText(reason)}`
    if (event.error === undefined)
      return withOutcome(outcome, gate('warn', 'denied', `${operation}: the policy denied it${says}`))
    const title = `${operation}: the policy failed, which denies${problemOf(event)}`
    const hint = 'Correct authorize, or raise authorizeTimeoutMs: errors and timeouts deny.'
    return withOutcome(outcome, gate('bad', 'denied', title, hint))
  },
  'kit.mcp.limit.reached': (event) =>
    withOutcome('refused', tool('warn', 'limit', `${toolOf(event)}: ${limitText(event.attributes ?? {})}`)),
  'kit.mcp.limit.unavailable': (event) =>
    tool(
      'bad',
      'not counted',
      `${toolOf(event)}: the store of limits failed, so calls pass${problemOf(event)}`,
      'Check that the store of limits.store is running.',
    ),
  'kit.mcp.confirm.asked': (event) =>
    withOutcome('asked', tool('plain', 'confirm', `${toolOf(event)}: the client is asked`)),
  'kit.mcp.confirm.accepted': (event) => tool('good', 'confirm', `${toolOf(event)}: the client said yes`),
  'kit.mcp.confirm.declined': (event) =>
    withOutcome('refused', tool('warn', 'confirm', `${toolOf(event)}: the client did not say yes`)),
  'kit.mcp.confirm.refused': (event) => {
    const reason = attributeText(event.attributes?.['kit.mcp.confirm.reason'])
    const title = `${toolOf(event)}: refused (${reason})${problemOf(event)}`
    return withOutcome('refused', tool('bad', 'confirm', title))
  },
  'kit.mcp.task.created': (event) => tool('plain', 'task', `${toolOf(event)}: runs as a task`),
  'kit.mcp.task.completed': (event) => tool('good', 'task', `${toolOf(event)}: the task is complete`),
  'kit.mcp.task.cancelled': (event) =>
    tool('warn', 'task', `${toolOf(event)}: the client cancelled the task`),
  'kit.mcp.task.failed': (event) =>
    tool(
      'bad',
      'task',
      `${toolOf(event)}: the task failed (${attributeText(event.attributes?.['error.type'])})`,
    ),
  'kit.mcp.tool.completed': (event) => withOutcome('completed', tool('good', 'tool', toolOf(event))),
  'kit.mcp.tool.failed': (event) =>
    withOutcome('failed', tool('bad', 'tool failed', `${toolOf(event)}${problemOf(event)}`)),
  'kit.mcp.request.completed': (event) => {
    const { 'http.response.status_code': stated, 'rpc.response.status_code': code } = event.attributes ?? {}
    const status = Number(attributeText(stated))
    const outcome = [status || '', code === undefined ? '' : `error ${attributeText(code)}`]
    const title = `${operationOf(event) ?? 'a request'} → ${outcome.filter((text) => text !== '').join(', ')}`
    const tone = status >= 400 || code !== undefined ? 'warn' : 'plain'
    return { group: 'request', tone, word: 'completed', title, outcome: 'completed' }
  },
  'kit.mcp.request.failed': (event) => {
    const problem = problemOf(event) || ': a function of the application threw an error'
    const title = `${operationOf(event) ?? 'a request'}${problem}`
    return { group: 'request', tone: 'bad', word: 'failed', title, outcome: 'failed' }
  },
  ...MCP_EVENT_KINDS,
  'dev.request': ({ attributes = {} }) => requestKind(attributes),
}

/** The limit that a call has reached, in words. */
const LIMITS: Readonly<Record<ReachedLimit['limit'], (max: string, actual: string) => string>> = {
  calls: (max, actual) => `call ${actual} in a period that allows ${max}`,
  concurrency: (max) => `more than ${max} at the same time`,
  timeout: (max) => `not finished within ${max} ms`,
  result_size: (max, actual) => `a result of ${actual} bytes, and at most ${max} are allowed`,
}

/** Returns the meaning of an event. */
export function kindOf(event: ConsoleEvent): EventKind {
  const { name, level, attributes = {} } = event
  const known = lookUp(KINDS, name)?.(event) ?? signInKind(name, attributes)
  if (known !== undefined) return known
  const tone = level === 'error' || level === 'fatal' ? 'bad' : level === 'warn' ? 'warn' : 'plain'
  return { group: 'other', tone, word: level, title: `${name}${problemOf(event)}` }
}

function withOutcome(outcome: Outcome, kind: EventKind): EventKind {
  return { ...kind, outcome }
}

function gate(tone: Tone, word: string, title: string, hint?: string): EventKind {
  return { group: 'gate', tone, word, title, hint }
}

function tool(tone: Tone, word: string, title: string, hint?: string): EventKind {
  return { group: 'tool', tone, word, title, hint }
}

function toolOf({ attributes = {} }: ConsoleEvent): string {
  return attributeText(attributes['gen_ai.tool.name'] ?? 'a tool')
}

/** Returns the message of the error after a separator, or an empty string if the event has no error. */
function problemOf({ error }: ConsoleEvent, separator = ': '): string {
  return error === undefined ? '' : `${separator}${attributeText(error.message)}`
}

function limitText(attributes: Attributes): string {
  const [max, actual] = [attributeText(attributes['limit.max']), attributeText(attributes['limit.actual'])]
  return lookUp(LIMITS, attributes.limit)?.(max, actual) ?? 'a limit was reached'
}
