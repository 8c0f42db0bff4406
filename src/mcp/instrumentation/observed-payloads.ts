import { cutText } from '../../cut-text.ts'
import { tryOrUndefined } from '../../try-or-undefined.ts'
import type { TokenRedactor } from './token-redactor.ts'

/** Longest text of arguments or results on a span. */
const MAX_PAYLOAD = 16_384

/** Arguments and result of a tool, as attributes. */
export type Payloads = Readonly<Record<string, unknown>>

/** For an event, without the token; the manager redacts them. */
export function payloads(eraser: TokenRedactor, args: unknown, result: unknown): Payloads {
  const told = tryOrUndefined(() => ({
    ...(args !== undefined && { 'gen_ai.tool.call.arguments': eraser.json(args) }),
    ...(result !== undefined && { 'gen_ai.tool.call.result': eraser.json(contentOf(result)) }),
  }))
  return told ?? {}
}

/**
 * The same for a span, which takes texts only.
 * @param redact as the manager redacts an event's.
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

/** What a tool's result holds for a reader. */
function contentOf(result: unknown): unknown {
  const { structuredContent, content } = result as { structuredContent?: unknown; content?: unknown }
  return structuredContent ?? content
}
