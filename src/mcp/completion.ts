import {
  type CompleteRequest,
  type CompleteResult,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from '@modelcontextprotocol/server'
import { quotedName } from '../given.ts'
import { didYouMean, isOptionsObject, optionChecksOf } from '../oauth/option-checks.ts'
import { CallContext, type KitContext } from './context.ts'
import { runSafely, type Serving } from './operation.ts'

const { checkFunction, invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

/** What a completer knows beside the text so far. */
export interface CompletionInput<App = unknown, User = any> {
  /** The other arguments, as far as they are filled in. */
  readonly arguments: Readonly<Record<string, string>>
  /** What the handlers of the same request get. */
  readonly context: KitContext<App, User>
}

/** Suggests values for an argument that starts with `value`. The first 100 are sent. */
export type Completer<App = unknown, User = any> = (
  value: string,
  input: CompletionInput<App, User>,
) => readonly string[] | Promise<readonly string[]>

export type Completers = ReadonlyMap<string, Completer>

/** Completers by argument. @throws {KitMcpConfigError} for an argument that is not in `names`. */
export function checkCompleters(
  owner: string,
  complete: unknown,
  names: readonly string[],
): Completers | undefined {
  if (complete === undefined) return undefined
  if (!isOptionsObject(complete)) {
    throw invalidKind('complete', `of ${owner} must be an object with a function for each argument`, complete)
  }
  const entries = Object.entries(complete)
  for (const [name, completer] of entries) {
    if (!names.includes(name)) {
      throw invalidOption(
        'complete',
        `of ${owner} names ${quotedName(name)}, which is no argument of it.${didYouMean(name, names)} Known are: ${names.join(', ')}`,
      )
    }
    checkFunction(
      'complete',
      completer,
      `'${name}' of ${owner} needs a function (value, { arguments, context }) => string[]`,
    )
  }
  return new Map(entries as [string, Completer][])
}

/** Most values of one answer (2025-03-26 and later). */
const MAX_VALUES = 100

/** Answers `completion/complete`. @throws {ProtocolError} -32602 when there is no such prompt or template. */
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
    context: new CallContext(serving.exchange, sdk, undefined, serving.sessionCapabilities),
  }
  const { values, total } = await runSafely(serving, request, sdk, 'The completion', async () => {
    const all = await completer(argument.value, input)
    if (!Array.isArray(all)) throw new TypeError(`A completer returned a ${typeof all}, not an array`)
    return { values: all.slice(0, MAX_VALUES), total: all.length }
  })
  return { completion: { values, total, hasMore: total > MAX_VALUES } }
}

function completersFor({ table }: Serving, ref: CompleteRequest['params']['ref']): Completers | undefined {
  if (ref.type === 'ref/prompt') {
    const prompt = table.prompts.get(ref.name)
    if (prompt !== undefined) return prompt.completers
    throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Prompt ${ref.name} not found`)
  }
  const template = table.templates.find(({ definition }) => definition.uriTemplate === ref.uri)
  if (template !== undefined) return template.completers
  if (table.resources.has(ref.uri)) return undefined
  throw new ProtocolError(ProtocolErrorCode.InvalidParams, `Resource template ${ref.uri} not found`)
}
