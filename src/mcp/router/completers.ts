import { quotedName } from '../../base/options/describe-value.ts'
import { didYouMean, isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import type { KitContext } from './context.ts'

const { checkFunction, invalidKind, invalidOption } = optionChecksOf('KitMcpRouter')

/** The second argument of a completer. */
export interface CompletionInput<App = unknown, User = any> {
  /** The arguments that the user has already filled in. */
  readonly arguments: Readonly<Record<string, string>>
  /** The context of the request, as handlers receive it. */
  readonly context: KitContext<App, User>
}

/** Returns suggestions for an argument whose current text is `value`. The client receives the first 100. */
export type Completer<App = unknown, User = any> = (
  value: string,
  input: CompletionInput<App, User>,
) => readonly string[] | Promise<readonly string[]>

export type Completers = ReadonlyMap<string, Completer>

/** Returns the completers by argument. @throws {KitMcpConfigError} if an argument is not in `names`. */
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
        `of ${owner} names ${quotedName(name)}, which is not an argument.${didYouMean(name, names)} Known arguments: ${names.join(', ')}`,
      )
    }
    checkFunction(
      'complete',
      completer,
      `give '${name}' of ${owner} a function (value, { arguments, context }) => string[]`,
    )
  }
  return new Map(entries as [string, Completer][])
}
