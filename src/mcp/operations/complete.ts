import type { CompleteRequest, CompleteResult, ServerContext } from '@modelcontextprotocol/server'
import type { Completers } from '../router/completers.ts'
import { canonicalTemplate } from '../router/uris/canonical-template.ts'
import { MAX_URI_LENGTH } from '../router/uris/canonical-uri.ts'
import { callContext, invalidParams, repeatedUri, runSafely, type Serving } from './operation.ts'

/** The maximum number of values in one response (2025-03-26 and later). */
const MAX_VALUES = 100

/** Serves `completion/complete`. @throws {ProtocolError} -32602 if the prompt or template does not exist. */
export async function complete(
  serving: Serving,
  request: CompleteRequest,
  sdk: ServerContext,
): Promise<CompleteResult> {
  const { ref, argument, context } = request.params
  const completer = completersFor(serving, ref)?.get(argument.name)
  if (completer === undefined) return { completion: { values: [] } }
  const input = {
    arguments: context?.arguments ?? {},
    context: callContext(serving, sdk),
  }
  const { values, total } = await runSafely(serving, request, sdk, 'The completion', async () => {
    const all = await completer(argument.value, input)
    if (!Array.isArray(all)) throw new TypeError(`The completer returned a ${typeof all}, not an array`)
    return { values: all.slice(0, MAX_VALUES), total: all.length }
  })
  return { completion: { values, total, hasMore: total > MAX_VALUES } }
}

function completersFor({ table }: Serving, ref: CompleteRequest['params']['ref']): Completers | undefined {
  if (ref.type === 'ref/prompt') {
    const prompt = table.prompts.get(ref.name)
    if (prompt !== undefined) return prompt.completers
    throw invalidParams(`Prompt ${ref.name} not found`)
  }
  const { uri } = ref
  const named = uri.length <= MAX_URI_LENGTH ? canonicalTemplate(uri) : undefined
  if (named !== undefined) {
    const template = table.templates.find(({ canonical }) => canonical === named.text)
    if (template !== undefined) return template.completers
    if (table.resources.has(named.text)) return undefined
  }
  throw invalidParams(`Resource template ${repeatedUri(uri)} not found`)
}
