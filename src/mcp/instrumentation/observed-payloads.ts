import { cutText } from '../../cut-text.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { TokenRedactor } from './token-redactor.ts'

/** The maximum length of arguments or results on a span, as JSON. */
const MAX_PAYLOAD = 16_384

/** The arguments and the result of a tool, as attributes. */
export type Payloads = Readonly<Record<string, unknown>>

/** Returns the attributes for an event, without the token. The manager redacts them. */
export function payloads(redactor: TokenRedactor, args: unknown, result: unknown): Payloads {
  const attributes = tryOrUndefined(() => ({
    ...(args !== undefined && { 'gen_ai.tool.call.arguments': redactor.json(args) }),
    ...(result !== undefined && { 'gen_ai.tool.call.result': redactor.json(contentOf(result)) }),
  }))
  return attributes ?? {}
}

/**
 * Returns the attributes for a span, as JSON strings.
 * @param redact redacts attributes as the manager redacts those of events
 */
export function payloadTexts(
  given: Payloads,
  redact: (given: Payloads) => Readonly<Record<string, unknown>>,
): Record<string, string> {
  if (Object.keys(given).length === 0) return {}
  const redacted = tryOrUndefined(() => redact(given)) ?? {}
  return Object.fromEntries(
    Object.entries(redacted).map(([key, value]) => [key, cutText(JSON.stringify(value), MAX_PAYLOAD)]),
  )
}

/** Returns the content of a tool's result, preferably the structured content. */
function contentOf(result: unknown): unknown {
  const { structuredContent, content } = result as { structuredContent?: unknown; content?: unknown }
  return structuredContent ?? content
}
