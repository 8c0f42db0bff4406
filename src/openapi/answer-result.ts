import { STATUS_CODES } from 'node:http'
import { isJson } from './request-plan.ts'
import type { RouteAnswer } from './route-target.ts'

/** A tool's result, in the form of MCP. */
export interface RouteResult {
  readonly content: readonly Record<string, unknown>[]
  readonly structuredContent?: unknown
  readonly isError?: boolean
}

/** Characters of a refusal that are passed on. */
const MAX_REFUSAL = 2_000

/**
 * What a tool says of an answer: JSON and text as text, JSON as structured content too where the tool has an output
 * schema, images and sounds as such. Anything but 2xx is an error.
 */
export function resultOf(answer: RouteAnswer, method: string, structured: boolean): RouteResult {
  const { status, body } = answer
  if (status < 200 || status > 299) return errorResult(refusalOf(answer))
  const type = answer.header('content-type') ?? ''
  if (isJson(type) && body.length > 0) {
    const text = body.toString('utf8')
    if (!structured) return textResult(text)
    try {
      return { ...textResult(text), structuredContent: JSON.parse(text) }
    } catch {
      return errorResult('The route answered with JSON that cannot be read.')
    }
  }
  if (structured) {
    return errorResult(
      `${statusLine(status)}: the route answered without the JSON that its description promises.`,
    )
  }
  const [, kind] = /^(image|audio)\//i.exec(type) ?? []
  if (kind !== undefined && body.length > 0) {
    const mimeType = type.split(';', 1)[0]?.trim()
    return { content: [{ type: kind.toLowerCase(), data: body.toString('base64'), mimeType }] }
  }
  if (body.length === 0) return textResult(statusLine(status))
  if (isText(type)) return textResult(body.toString('utf8'))
  return textResult(
    `${statusLine(status)}: ${body.length} bytes of ${method === 'HEAD' ? 'nothing' : type || 'an unknown type'}`,
  )
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
 * What the model may know of a refusal. HTML is for people, and often shows a stack; the words of a 5xx are about the
 * inside of the server.
 */
function refusalOf(answer: RouteAnswer): string {
  const { status, body } = answer
  const retryAfter = answer.header('retry-after')
  const again =
    retryAfter !== undefined && /^[\w ,:]{1,40}$/.test(retryAfter) ? `, try again after ${retryAfter}` : ''
  const head = `${statusLine(status)}${again}`
  const type = answer.header('content-type') ?? ''
  if (status >= 500 || status < 400 || body.length === 0 || !(isJson(type) || /^text\/plain\b/i.test(type)))
    return head
  const text = body
    .toString('utf8', 0, MAX_REFUSAL * 4)
    // Nothing that could steer a terminal.
    .replace(/[\p{Cc}\p{Cf}]/gu, (character) => (character === '\n' || character === '\t' ? character : ''))
  return `${head}: ${text.length > MAX_REFUSAL ? `${text.slice(0, MAX_REFUSAL - 1)}…` : text}`
}
