import type { JSONRPCMessage } from '@modelcontextprotocol/server'
import { cutText } from '../../cut-text.ts'
import { problemIn } from './schema-issues.ts'

/** The maximum length of an error message about a client's input. */
const MAX_TEXT = 4_000

/** Error messages of the SDK up to this length are not changed. */
const MAX_ISSUE_LIST = 2_000

/** The beginning of the SDK's result of a tool whose arguments are invalid. */
const INPUT_ERROR = 'Input validation error: '

/**
 * Shortens a response in which the SDK lists every issue of a validation: it lists the first issues and counts the rest.
 * Returns any other message unchanged.
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
  const kept = cutText(text, MAX_TEXT - 100, '…')
  return `${kept} and ${(text.length - kept.length + 1).toLocaleString('en-US')} more characters`
}

/** Returns the issues of a schema library's error whose message is their JSON. */
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
