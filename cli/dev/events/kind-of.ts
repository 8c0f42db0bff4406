import type { ReachedLimit } from '../../../src/mcp/wire/request-telemetry.ts'
import { attributeText, type ConsoleEvent, lookUp, operationOf } from './console-event.ts'
import type { EventKind, Outcome, Tone } from './event-kind.ts'
import { MCP_EVENT_KINDS } from './mcp-event-kinds.ts'
import { forbiddenText, refusalText } from './refusals.ts'
import { requestKind } from './request-kind.ts'
import { signInKind } from './sign-in-kind.ts'

/** The events that are described in words. */
const KINDS: Readonly<Record<string, (event: ConsoleEvent) => EventKind>> = {
  'kit.mcp.auth.accepted': (event) =>
    gate('accepted', 'good', 'accepted', operationOf(event) ?? 'the token is valid'),
  'kit.mcp.auth.anonymous': (event) =>
    gate(undefined, 'plain', 'anonymous', `${operationOf(event) ?? 'a public operation'}, without a token`),
  'kit.mcp.auth.refused': ({ attributes = {}, request: { host, origin } = { id: '' } }) => {
    const reason = attributeText(attributes.reason)
    const isForbidden = (reason === 'host' && host) || (reason === 'origin' && origin)
    const text = isForbidden
      ? forbiddenText(reason === 'origin' ? origin : undefined, host)
      : refusalText(reason, attributes['kit.mcp.auth.invalid.cause'])
    const title = text === undefined ? reason : `${reason}: ${text.says}`
    // The first request of every client has no token.
    if (reason === 'missing') return gate('asked', 'plain', '401', title, text?.hint)
    return gate('refused', 'bad', 'refused', title, text?.hint)
  },
  'kit.mcp.auth.unavailable': (event) => {
    const hint = `The client got a 503 and will retry. Check that the authorization server is running.${problemOf(event, ' ')}`
    return gate('outage', 'bad', 'outage', 'the access token could not be verified right now', hint)
  },
  'kit.mcp.policy.denied': (event) => {
    const { 'kit.mcp.policy.reason': reason, 'kit.mcp.policy.purpose': purpose } = event.attributes ?? {}
    const outcome = purpose === 'list' ? 'failed' : 'refused'
    const operation = operationOf(event) ?? 'an operation'
    const says = reason === undefined ? '' : `: ${attributeText(reason)}`
    if (event.error === undefined)
      return gate(outcome, 'warn', 'denied', `${operation}: the policy denied it${says}`)
    const title = `${operation}: the policy failed, which denies${problemOf(event)}`
    const hint = 'Correct authorize, or raise authorizeTimeoutMs: errors and timeouts deny.'
    return gate(outcome, 'bad', 'denied', title, hint)
  },
  'kit.mcp.limit.reached': ofTool('warn', 'limit', limitText, 'refused'),
  'kit.mcp.limit.unavailable': (event) => ({
    ...ofTool('bad', 'not counted', `the store of limits failed, so calls pass${problemOf(event)}`)(event),
    hint: 'Check that the store of limits.store is running.',
  }),
  'kit.mcp.confirm.asked': ofTool('plain', 'confirm', 'the client is asked', 'asked'),
  'kit.mcp.confirm.accepted': ofTool('good', 'confirm', 'the client said yes'),
  'kit.mcp.confirm.declined': ofTool('warn', 'confirm', 'the client did not say yes', 'refused'),
  'kit.mcp.confirm.refused': ofTool('bad', 'confirm', refusedText, 'refused'),
  'kit.mcp.task.created': ofTool('plain', 'task', 'runs as a task'),
  'kit.mcp.task.completed': ofTool('good', 'task', 'the task is complete'),
  'kit.mcp.task.cancelled': ofTool('warn', 'task', 'the client cancelled the task'),
  'kit.mcp.task.failed': ofTool('bad', 'task', failedText),
  'kit.mcp.tool.completed': ofTool('good', 'tool', '', 'completed'),
  'kit.mcp.tool.failed': ofTool(
    'bad',
    'tool failed',
    ({ error }) => attributeText(error?.message ?? ''),
    'failed',
  ),
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

function gate(
  outcome: Outcome | undefined,
  tone: Tone,
  word: string,
  title: string,
  hint?: string,
): EventKind {
  return { group: 'gate', tone, word, title, hint, outcome }
}

/** Returns a function that describes an event of a tool. @param says the text after its name */
function ofTool(
  tone: Tone,
  word: string,
  says: string | ((event: ConsoleEvent) => string),
  outcome?: Outcome,
) {
  return (event: ConsoleEvent): EventKind => {
    const name = attributeText(event.attributes?.['gen_ai.tool.name'] ?? 'a tool')
    const text = typeof says === 'string' ? says : says(event)
    return { group: 'tool', tone, word, title: text === '' ? name : `${name}: ${text}`, outcome }
  }
}

/** Returns the message of the error after a separator, or an empty string if the event has no error. */
function problemOf({ error }: ConsoleEvent, separator = ': '): string {
  return error === undefined ? '' : `${separator}${attributeText(error.message)}`
}

function refusedText(event: ConsoleEvent): string {
  return `refused (${attributeText(event.attributes?.['kit.mcp.confirm.reason'])})${problemOf(event)}`
}

function failedText({ attributes = {} }: ConsoleEvent): string {
  return `the task failed (${attributeText(attributes['error.type'])})`
}

function limitText({ attributes = {} }: ConsoleEvent): string {
  const [max, actual] = [attributeText(attributes['limit.max']), attributeText(attributes['limit.actual'])]
  return lookUp(LIMITS, attributes.limit)?.(max, actual) ?? 'a limit was reached'
}
