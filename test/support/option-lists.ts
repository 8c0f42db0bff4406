import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type OptionsTaker, TAKERS } from './option-takers.ts'

/** The page whose tables of options are made from the messages. */
export const PAGE: string = fileURLToPath(new URL('../../../docs/reference/errors.md', import.meta.url))

/** The requirement of an option, as its messages state it. */
export interface Requirement {
  /** The accepted values, such as `a whole number from 1 to 10`. */
  readonly takes: string
  readonly isNeeded: boolean
  /** The option that cannot be given together with this one. */
  readonly excludes: string | undefined
}

/** Returns the message of the error that a call throws or rejects with, or `undefined` if it does not fail. */
async function messageOf(call: () => unknown): Promise<string | undefined> {
  try {
    await call()
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}

/** Returns the options that the error for an unknown option lists. */
export async function knownTo({ call, good }: OptionsTaker): Promise<string[]> {
  const message = await messageOf(() => call({ ...good, zzzzzzzzzzzz: 1 }))
  const [, list = ''] = /Known options: (.+)\. Run /.exec(message ?? '') ?? []
  return list.split(', ')
}

/** Reads the requirement of an option from the messages for a value that no option accepts, and for no value. */
export async function requirementOf({ call, good }: OptionsTaker, option: string): Promise<Requirement> {
  const others = Object.fromEntries(Object.entries(good).filter(([name]) => name !== option))
  const isNeeded = option in good && (await messageOf(() => call(others))) !== undefined
  const value = Symbol('no value of any option')
  let message = await messageOf(() => call({ ...others, [option]: value }))
  const [, excludes] = /(?:given|set|used) together with (\w+)/.exec(message ?? '') ?? []
  if (excludes !== undefined)
    message = await messageOf(() => call({ ...others, [excludes]: undefined, [option]: value }))
  const [, takes] = /\b(?:must be |(?=must ))(.+?)(?:; received |\. [A-Z])/.exec(message ?? '') ?? []
  if (takes === undefined) throw new Error(`the message for ${option} states no requirement: ${message}`)
  return { takes, isNeeded, excludes }
}

const NO_NUMBER: readonly unknown[] = ['10', -1, Number.NaN, {}]

/** The invalid values of a kind of options, by the beginning of its requirement. */
const KINDS: readonly (readonly [
  requirement: RegExp,
  wrong: (match: RegExpExecArray) => readonly unknown[],
])[] = [
  [/^true or false$/, () => ['yes', 1]],
  [/^true, false, or /, () => ['yes', 5, []]],
  [/^a function$/, () => ['handler', {}, 5]],
  [/^a string$/, () => [5, {}]],
  [/^a non-empty string$/, () => ['', 5, {}]],
  [/^an array of non-empty strings$/, () => [5, [5], [''], {}]],
  [/^an array of scopes /, () => [['mcp:read mcp:write'], [5], {}]],
  [/^an absolute URL such as /, () => ['auth.example.com', 5, 'ftp://auth.example.com']],
  [/^an absolute URL that starts with http/, () => ['example.com', 5]],
  [
    /^a whole number from (\d+) to (\d+)$/,
    ([, min, max]) => [...NO_NUMBER, 1.5, Number(min) - 1, Number(max) + 1],
  ],
  [/^a whole number of at least (\d+)$/, ([, min]) => [...NO_NUMBER, 1.5, Number(min) - 1]],
  [
    /^a number of (?:milli)?seconds,? (above 0|more than 0|0 or more|of at least 0)/,
    ([, min]) => (/above|more than/.test(min as string) ? [...NO_NUMBER, 0] : NO_NUMBER),
  ],
  [/^a number from (\d+) to (\d+)$/, ([, min, max]) => [...NO_NUMBER, Number(min) - 1, Number(max) + 1]],
  [/^'[^']*'(?:(?:, '[^']*')* or '[^']*')?$/, () => ['none of these', 5, true]],
  [/^an object(?: |$)/, () => ['x', 5, []]],
]

/** Returns invalid values of an option with a requirement: those of its kind. */
export function wrongValuesOf(takes: string): readonly unknown[] {
  for (const [requirement, wrong] of KINDS) {
    const match = requirement.exec(takes)
    if (match !== null) return wrong(match)
  }
  return []
}

/**
 * Returns the page with tables of options that state what the messages state. Notes of a row, and sections without a table,
 * stay as they are.
 */
export async function withOptionTables(page: string): Promise<string> {
  const sections = page.split(/^(?=#{3,5} )/m)
  for (const [index, section] of sections.entries()) {
    const [, heading = ''] = /^#+ (.+)$/m.exec(section) ?? []
    const anchor = heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-')
    const takers = TAKERS.filter((taker) => taker.heading === anchor && taker.isListed !== false)
    const [table] = /^\| Option \|.*\n(?:\|.*\n)*/m.exec(section) ?? []
    if (takers.length === 0 || table === undefined || anchor === 'kitmcprouter') continue
    const made = await tableOf(takers, notesIn(table))
    sections[index] = section.replace(table, () => made)
  }
  return sections.join('')
}

/** Returns the notes of a table, by option, and by its functions if the table names them. */
function notesIn(table: string): ReadonlyMap<string, string> {
  const [head = [], , ...rows] = table
    .trim()
    .split('\n')
    .map((line) => line.slice(2, -2).split(/ \| | \|$/))
  const column = head.indexOf('Notes')
  const of = head.indexOf('Of')
  return new Map(
    rows.flatMap((cells) =>
      (cells[0] ?? '')
        .split(', ')
        .map((name) => [name + (cells[of] ?? ''), (cells[column] ?? '').trim()] as const),
    ),
  )
}

/** Returns a table with a row for the options of one requirement that follow each other. */
async function tableOf(takers: readonly OptionsTaker[], notes: ReadonlyMap<string, string>): Promise<string> {
  const isOfOAuth = takers.some(({ heading }) => heading === 'oauth')
  const rows = new Map<string, { readonly of: string[]; readonly takes: string }>()
  for (const taker of takers) {
    for (const option of await knownTo(taker)) {
      const takes = textOf(await requirementOf(taker, option))
      const path = taker.member === undefined ? option : `${taker.member}.${option}`
      const name = isOfOAuth ? `[\`${path}\`](#oauth-${path.toLowerCase()})` : `\`${path}\``
      const key = `${name}\n${takes}`
      const of = taker.member === undefined ? `\`${taker.name}\`` : ''
      rows.set(key, { takes, of: [...(rows.get(key)?.of ?? []), of] })
    }
  }
  const functions = new Set(takers.filter(({ member }) => member === undefined).map(({ name }) => name)).size
  const lines: (readonly [names: string[], rest: string])[] = []
  const hasNotes = [...notes.values()].some((note) => note !== '')
  for (const [key, { of, takes }] of rows) {
    const [name = ''] = key.split('\n')
    const owners = functions === 1 ? [] : [of.length === functions ? 'all' : of.join(', ')]
    const rest = [...owners, takes, ...(hasNotes ? [notes.get(name + owners.join('')) ?? ''] : [])].join(
      ' | ',
    )
    const last = lines.at(-1)
    if (last?.[1] === rest) last[0].push(name)
    else lines.push([[name], rest])
  }
  const columns = ['Option', ...(functions === 1 ? [] : ['Of']), 'Takes', ...(hasNotes ? ['Notes'] : [])]
  const rule = columns.map(() => '---').join('|')
  const text = lines.map(([names, rest]) => `| ${names.join(', ')} | ${rest} |`.replace('|  |', '| |'))
  return `| ${columns.join(' | ')} |\n|${rule}|\n${text.join('\n')}\n`
}

function textOf({ takes, isNeeded, excludes }: Requirement): string {
  const text = takes
    .replace(/\{.*\}|\[[^\]]*\]|(?<!\w)'[^']*'|\b[\w…]+\([^)]*\)/g, '`$&`')
    .replace(/`[^`]*`|\d{5,}/g, (part) =>
      part.startsWith('`') ? part : part.replace(/\B(?=(?:\d{3})+$)/g, ' '),
    )
  return [text, isNeeded ? 'needed' : '', excludes === undefined ? '' : `not together with \`${excludes}\``]
    .filter((part) => part !== '')
    .join('; ')
    .replaceAll('|', '\\|')
}

/** Returns the page as it is. */
export function readPage(): string {
  return readFileSync(PAGE, 'utf8')
}
