import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { problemIn } from './schema-issues.ts'
import { shortened } from './shortened.ts'

/** The longest text of an error about what a client has sent. */
const MAX_TEXT = 4_000

/** From this length on, the issues that the SDK writes may be more than are reported. */
const MAX_ISSUE_LIST = 2_000

/** How a server of the official SDK begins the result of a tool whose arguments do not fit. */
const INPUT_ERROR = 'Input validation error: '

/**
 * `message`, or if it is an answer in which the SDK repeats every issue of a validation, one that reports the first of
 * them and counts the rest.
 */
export function withBoundedError<Message extends JSONRPCMessage>(message: Message): Message {
  if ('error' in message) {
    const { error } = message
    if (typeof error.message !== 'string' || error.message.length <= MAX_ISSUE_LIST) return message
    return { ...message, error: { ...error, message: boundedText(error.message) } }
  }
  if (!('result' in message) || message.result?.isError !== true) return message
  const { content } = message.result as { content?: unknown }
  const text = Array.isArray(content) && content.length === 1 ? content[0]?.text : undefined
  if (typeof text !== 'string' || text.length <= MAX_TEXT || !text.startsWith(INPUT_ERROR)) return message
  return { ...message, result: { ...message.result, content: [{ type: 'text', text: boundedText(text) }] } }
}

function boundedText(text: string): string {
  const issues = text.startsWith('[') ? parsedIssues(text) : undefined
  if (issues !== undefined) return problemIn(issues)
  if (text.length <= MAX_TEXT) return text
  const kept = shortened(text, MAX_TEXT - 100)
  return `${kept} and ${(text.length - kept.length + 1).toLocaleString('en-US')} more characters`
}

/** The issues of a schema library's error, whose message is their JSON. */
function parsedIssues(text: string): Parameters<typeof problemIn>[0] | undefined {
  try {
    const issues: unknown = JSON.parse(text)
    return Array.isArray(issues) && issues.every(isIssue) ? issues : undefined
  } catch {
    return undefined
  }
}

function isIssue(value: unknown): value is { message: string; path: string[] } {
  const { message, path } = (value ?? {}) as { message?: unknown; path?: unknown }
  return typeof message === 'string' && Array.isArray(path)
}
