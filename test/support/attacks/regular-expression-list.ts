import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { sep } from 'node:path'
import { regularExpressionsOf } from './regular-expressions-of.ts'

const ROOT = new URL('../../../../', import.meta.url)

/** The list of all regular expressions of the sources. */
export const LIST = new URL('test/attacks/regular-expressions.json', ROOT)

/**
 * - `outside`: from clients, authorization servers, and other servers.
 * - `options`: from the application: its options, its tools, and the arguments of the command line.
 * - `own`: only from this package, from Node.js, or from a library.
 */
export const INPUTS = ['outside', 'options', 'own'] as const

export interface Entry {
  readonly input: (typeof INPUTS)[number] | ''
  /** The reason why the expression takes linear time. */
  readonly linear: string
  /** For an expression that takes polynomial time: the length to which the code limits its input. */
  readonly maxLength?: number
  /** For an expression that is built from strings: an example of the largest one, as `/pattern/flags`. */
  readonly example?: string
}

/** The entries by file and expression. */
export type List = Readonly<Record<string, Readonly<Record<string, Entry>>>>

/** Returns the expressions of `src` and `cli`, by file. */
export function expressionsOfSources(): ReadonlyMap<string, ReturnType<typeof regularExpressionsOf>> {
  const files = ['cli', 'src']
    .flatMap((folder) =>
      readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' }).map(
        (file) => `${folder}/${file.split(sep).join('/')}`,
      ),
    )
    .filter((file) => file.endsWith('.ts'))
    .sort()
  return new Map(
    files
      .map((file) => [file, regularExpressionsOf(readFileSync(new URL(file, ROOT), 'utf8'))] as const)
      .filter(([, found]) => found.length > 0),
  )
}

/** Returns the list as it is stored. */
export function storedList(): List {
  return existsSync(LIST) ? JSON.parse(readFileSync(LIST, 'utf8')) : {}
}
