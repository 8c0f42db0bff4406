import { attributeText } from './attribute-text.ts'
import { type ConsoleEvent, operationOf } from './console-event.ts'
import type { EventKind, Tone } from './event-kind.ts'
import { factsOf } from './facts.ts'
import { refusalText } from './refusals.ts'
import { requestKind, signInKind } from './sign-in-kind.ts'

/** Returns the display form of an event. */
export function kindOf(event: ConsoleEvent): EventKind {
  const { attributes = {}, name, error } = event
  switch (name) {
    case 'kit.mcp.auth.accepted':
      return {
        group: 'gate',
        tone: 'good',
        word: 'accepted',
        title: operationOf(event) ?? 'the token is valid',
      }
    case 'kit.mcp.auth.refused': {
      const reason = attributeText(attributes.reason)
      const text = refusalText(reason, attributes['kit.mcp.auth.invalid.cause'])
      const title = text === undefined ? reason : `${reason}: ${text.says}`
      return { group: 'gate', tone: 'bad', word: 'refused', title, hint: text?.hint, facts: factsOf(event) }
    }
    case 'kit.mcp.auth.anonymous':
      return {
        group: 'gate',
        tone: 'plain',
        word: 'anonymous',
        title: `${operationOf(event) ?? 'a public operation'}, without a token`,
      }
    case 'kit.mcp.policy.denied': {
      const operation = operationOf(event) ?? 'an operation'
      return error === undefined
        ? { group: 'gate', tone: 'warn', word: 'denied', title: `${operation}: the policy denied it` }
        : {
            group: 'gate',
            tone: 'bad',
            word: 'denied',
            title: `${operation}: the policy failed, which denies: ${error.message}`,
            hint: 'Correct authorize, or raise authorizeTimeoutMs: errors and timeouts deny.',
          }
    }
    case 'kit.mcp.limit.reached':
      return { group: 'tool', tone: 'warn', word: 'limit', title: `${toolOf(event)}: ${limitOf(attributes)}` }
    case 'kit.mcp.limit.unavailable':
      return {
        group: 'tool',
        tone: 'bad',
        word: 'not counted',
        title: `${toolOf(event)}: the store of limits failed, so calls pass${error === undefined ? '' : `: ${error.message}`}`,
        hint: 'Check that the store of limits.store is running.',
      }
    case 'kit.mcp.auth.unavailable':
      return {
        group: 'gate',
        tone: 'bad',
        word: 'outage',
        title: 'the access token could not be verified right now',
        hint: `The client got a 503 and will retry. Check that the authorization server is running.${error === undefined ? '' : ` ${error.message}`}`,
      }
    case 'kit.mcp.task.created':
      return { group: 'tool', tone: 'plain', word: 'task', title: `${toolOf(event)}: runs as a task` }
    case 'kit.mcp.task.completed':
      return { group: 'tool', tone: 'good', word: 'task', title: `${toolOf(event)}: the task is complete` }
    case 'kit.mcp.task.cancelled':
      return {
        group: 'tool',
        tone: 'warn',
        word: 'task',
        title: `${toolOf(event)}: the client cancelled the task`,
      }
    case 'kit.mcp.task.failed':
      return {
        group: 'tool',
        tone: 'bad',
        word: 'task',
        title: `${toolOf(event)}: the task failed (${attributeText(attributes['error.type'])})`,
      }
    case 'kit.mcp.tool.completed':
      return { group: 'tool', tone: 'good', word: 'tool', title: toolOf(event) }
    case 'kit.mcp.tool.failed':
      return {
        group: 'tool',
        tone: 'bad',
        word: 'tool failed',
        title: error === undefined ? toolOf(event) : `${toolOf(event)}: ${error.message}`,
      }
    case 'kit.mcp.request.completed': {
      const status = Number(attributeText(attributes['http.response.status_code']))
      const code = attributes['rpc.response.status_code']
      const failed = status >= 400 || code !== undefined
      const outcome = [status || '', code === undefined ? '' : `error ${code}`].filter((text) => text !== '')
      const title = `${operationOf(event) ?? 'a request'} → ${outcome.join(', ')}`
      return { group: 'request', tone: failed ? 'warn' : 'plain', word: 'completed', title }
    }
    case 'kit.mcp.request.failed':
      return {
        group: 'request',
        tone: 'bad',
        word: 'failed',
        title: `${operationOf(event) ?? 'a request'}: ${error?.message ?? 'a function of the application threw an error'}`,
      }
    case 'dev.request':
      return requestKind(attributes)
    default:
      return (
        signInKind(name, attributes) ?? {
          group: 'other',
          tone: toneOf(event.level),
          word: event.level,
          title: titleOf(event),
        }
      )
  }
}

function toolOf({ attributes = {} }: ConsoleEvent): string {
  return attributeText(attributes['gen_ai.tool.name'] ?? 'a tool')
}

/** Returns the limit that a call has reached, in words. */
function limitOf(attributes: Readonly<Record<string, unknown>>): string {
  const max = attributeText(attributes['limit.max'])
  const actual = attributeText(attributes['limit.actual'])
  switch (attributes.limit) {
    case 'calls':
      return `call ${actual} in a period that allows ${max}`
    case 'concurrency':
      return `more than ${max} at the same time`
    case 'timeout':
      return `not finished within ${max} ms`
    case 'result_size':
      return `a result of ${actual} bytes, and at most ${max} are allowed`
    default:
      return 'a limit was reached'
  }
}

function titleOf({ name, error }: ConsoleEvent): string {
  return error === undefined ? name : `${name}: ${error.message}`
}

function toneOf(level: string): Tone {
  if (level === 'error' || level === 'fatal') return 'bad'
  return level === 'warn' ? 'warn' : 'plain'
}
