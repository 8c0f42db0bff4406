import { isOptionsObject, optionChecksOf } from '../../base/options/option-checks.ts'
import type { KitContext } from './context.ts'

const { checkFunction, checkKnownOptions, invalidKind } = optionChecksOf('KitMcpRouter')

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
  checkKnownOptions(`complete of ${owner}`, complete, names)
  const entries = Object.entries(complete)
  for (const [name, completer] of entries)
    checkFunction(
      'complete',
      completer,
      `give '${name}' of ${owner} a function (value, { arguments, context }) => string[]`,
    )
  return new Map(entries as [string, Completer][])
}
