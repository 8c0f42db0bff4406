import { readFileSync } from 'node:fs'
import { packageFile } from '../package-file.ts'

/** The page in this package that lists the known problems of clients. */
const PAGE = 'docs/guides/clients.md'

/** A behavior of some clients that differs from the specifications or from other clients: a row of the page. */
export interface Quirk {
  /** The names of the clients. */
  readonly affected: readonly string[]
  /** The URL of a report, of documentation, or of source code. */
  readonly source: string
  /** The measure that a server or an authorization server can take. */
  readonly remedy: string
}

let quirks: ReadonlyMap<string, Quirk> | undefined

/** Returns a quirk by its ID. */
export function quirkOf(id: string): Quirk {
  quirks ??= readQuirks(readFileSync(packageFile(PAGE), 'utf8'))
  return quirks.get(id) as Quirk
}

/** Reads the table of the page: the clients, the problem with its sources, the measure, …, and the ID in backticks. */
function readQuirks(page: string): ReadonlyMap<string, Quirk> {
  const lines = page.split('## Known problems')[1]?.split('\n') ?? []
  const rows = lines.filter((line) => line.startsWith('| '))
  return new Map(
    rows.map((row) => {
      const [clients = '', problem = '', remedy = '', ...others] = row.slice(2, -2).split(' | ')
      const source = /\]\((https:[^)]*)\)/.exec(problem)?.[1] ?? ''
      const plain = remedy.replaceAll('`', '').replace(/\.$/, '')
      return [String(others.at(-1)).slice(1, -1), { affected: clients.split(', '), source, remedy: plain }]
    }),
  )
}
