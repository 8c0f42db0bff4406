import { didYouMean } from '../../base/options/nearest-name.ts'
import { isOptionsObject, type OptionChecks } from '../../base/options/option-checks.ts'

/** The header of the remote servers of GitHub and Azure DevOps, which their clients set by configuration. */
const HEADER = 'x-mcp-toolsets'
const NAME = /^[A-Za-z0-9_-]{1,64}$/
/** Stands for all tools, as at GitHub. */
const ALL = 'all'

const EXPECTED = "must be an object of tool names by toolset, such as { read: ['list_notes'] }"

/** The toolsets of an adapter, from which a client chooses those that it lists. */
export class Toolsets {
  readonly #sets: ReadonlyMap<string, readonly string[]>

  constructor(sets: ReadonlyMap<string, readonly string[]>) {
    this.#sets = sets
  }

  /** Returns the names of the tools that a request lists; `undefined` for all. */
  chosenBy({ headers }: Request): ReadonlySet<string> | undefined {
    const names = new Set((headers.get(HEADER) ?? '').split(',').map((name) => name.trim()))
    names.delete('')
    if (names.size === 0 || names.has(ALL)) return undefined
    return new Set([...this.#sets].flatMap(([name, tools]) => (names.has(name) ? tools : [])))
  }

  /** @throws {KitMcpConfigError} if a toolset names a tool that does not exist */
  checkTools(known: ReadonlyMap<string, unknown>, { invalidOption }: OptionChecks): void {
    for (const [name, tools] of this.#sets) {
      for (const tool of tools) {
        if (known.has(tool)) continue
        throw invalidOption(
          `toolsets.${name}`,
          `must contain only names of tools of the router.${didYouMean(tool, known.keys())}`,
          tool,
        )
      }
    }
  }
}

/** @throws {KitMcpConfigError} if the option is not an object of tool names by toolset */
export function checkToolsets(option: string, given: unknown, checks: OptionChecks): Toolsets {
  if (!isOptionsObject(given)) throw checks.invalidKind(option, EXPECTED, given)
  const sets = new Map<string, readonly string[]>()
  for (const [name, tools] of Object.entries(given)) {
    if (!NAME.test(name) || name === ALL)
      throw checks.invalidOption(
        option,
        `must name each toolset with 1 to 64 characters from A-Z a-z 0-9 _ -, and not '${ALL}'`,
        name,
      )
    sets.set(name, [...checks.checkTexts(`${option}.${name}`, tools)])
  }
  return new Toolsets(sets)
}
