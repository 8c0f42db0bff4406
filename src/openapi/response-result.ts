import { STATUS_CODES } from 'node:http'
import { cutText } from '../base/cut-text.ts'
import { counted } from '../base/options/counted.ts'
import { isJson } from './request-plan.ts'
import type { RouteResponse } from './route-target.ts'

/** The MCP result of a tool. */
export interface RouteResult {
  readonly content: readonly Record<string, unknown>[]
  readonly structuredContent?: unknown
  readonly isError?: boolean
}

/** The maximum length of an error response that is passed on, in characters. */
const MAX_ERROR_TEXT = 2_000

/**
 * Returns the tool result of a response. JSON and text become text. JSON also becomes structured content if the tool has an
 * output schema. Images and audio keep their type. Any status other than 2xx is an error.
 */
export function resultOf(response: RouteResponse, method: string, structured: boolean): RouteResult {
  const { status, body } = response
  if (status < 200 || status > 299) return errorResult(errorTextOf(response))
  const type = response.header('content-type') ?? ''
  if (isJson(type) && body.length > 0) {
    const text = body.toString('utf8')
    if (!structured) return textResult(text)
    try {
      return { ...textResult(text), structuredContent: JSON.parse(text) }
    } catch {
      return errorResult('The route responded with invalid JSON.')
    }
  }
  if (structured) {
    return errorResult(`${statusLine(status)}: the route did not respond with JSON as its schema requires.`)
  }
  const [, kind] = /^(image|audio)\//i.exec(type) ?? []
  if (kind !== undefined && body.length > 0) {
    const mimeType = type.split(';', 1)[0]?.trim()
    return { content: [{ type: kind.toLowerCase(), data: body.toString('base64'), mimeType }] }
  }
  if (body.length === 0) return textResult(statusLine(status))
  if (isText(type)) return textResult(body.toString('utf8'))
  const kindOfBody = method === 'HEAD' ? 'nothing' : type || 'an unknown type'
  return textResult(`${statusLine(status)}: ${counted(body.length, 'byte')} of ${kindOfBody}`)
}

export function errorResult(text: string): RouteResult {
  return { ...textResult(text), isError: true }
}

function textResult(text: string): RouteResult {
  return { content: [{ type: 'text', text }] }
}

export function statusLine(status: number): string {
  return `HTTP ${status} ${STATUS_CODES[status] ?? ''}`.trimEnd()
}

function isText(type: string): boolean {
  return type === '' || /^(?:text\/|application\/(?:[\w.-]+\+)?(?:xml|yaml)\b)/i.test(type)
}

/**
 * Returns the part of an error response that the model may see. The body is left out if it is HTML, which often shows a stack
 * trace, or if the status is 5xx, because it may describe internals of the server.
 */
function errorTextOf(response: RouteResponse): string {
  const { status, body } = response
  const retryAfter = response.header('retry-after')
  const again =
    retryAfter !== undefined && /^[\w ,:]{1,40}$/.test(retryAfter) ? `, try again after ${retryAfter}` : ''
  const head = `${statusLine(status)}${again}`
  const type = response.header('content-type') ?? ''
  if (status >= 500 || status < 400 || body.length === 0 || !(isJson(type) || /^text\/plain\b/i.test(type)))
    return head
  const text = body
    .toString('utf8', 0, MAX_ERROR_TEXT * 4)
    // Control characters could change a terminal.
    .replace(/[\p{Cc}\p{Cf}]/gu, (character) => (character === '\n' || character === '\t' ? character : ''))
  return `${head}: ${cutText(text, MAX_ERROR_TEXT, '…')}`
}
