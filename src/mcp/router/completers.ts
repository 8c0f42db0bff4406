import { quotedName } from '../../options/describe-value.ts'
import { didYouMean, isOptionsObject, optionChecksOf } from '../../options/option-checks.ts'
import type { KitContext } from './context.ts'

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
