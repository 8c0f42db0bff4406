import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type OptionsTaker, TAKERS } from './option-takers.ts'

/** The page whose lists of options are made from the messages. */
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

/** The items of a list of options: the names, whose they are, and a text that ends with a period. */
const LIST = /^(?:- `.*\n(?: {2}.*\n)*)+/m

/**
 * Returns the page with lists of options that state what the messages state, and with the requirement of each OAuth option
 * below its heading. Notes of an item, and sections without a list, stay as they are.
 */
export async function withOptionLists(page: string): Promise<string> {
  const sections = page.split(/^(?=#{3,5} )/m)
  for (const [index, section] of sections.entries()) {
    const [, heading = ''] = /^#+ (.+)$/m.exec(section) ?? []
    const [, option] = /^oauth: (\w+)$/.exec(heading) ?? []
    if (option !== undefined && /^Must .*\.$/m.test(section)) {
      const [taker] = TAKERS.filter((taker) => taker.heading === 'oauth')
      const takes = textOf(await requirementOf(taker as OptionsTaker, option))
      sections[index] = section.replace(
        /^Must .*$/m,
        () => `Must ${takes.startsWith('must ') ? takes.slice(5) : `be ${takes}`}.`,
      )
      continue
    }
    const anchor = heading
      .toLowerCase()
      .replace(/[^\w\- ]/g, '')
      .replaceAll(' ', '-')
    const takers = TAKERS.filter((taker) => taker.heading === anchor && taker.isListed !== false)
    const [list] = LIST.exec(section) ?? []
    if (takers.length === 0 || list === undefined || ['kitmcprouter', 'oauth'].includes(anchor)) continue
    const made = await listOf(takers, notesIn(list))
    sections[index] = section.replace(list, () => made)
  }
  return sections.join('')
}

/** Returns the notes of a list, by option and its functions. A note is what follows the first sentence of an item. */
function notesIn(list: string): ReadonlyMap<string, string> {
  return new Map(
    list.split(/^(?=- )/m).flatMap((item) => {
      const [, names = '', of = '', note = ''] =
        /^- ((?:`[^`]+`(?:, )?)+)( of .*?)?: (?:`[^`]*`|[^`])*?\.(?:\s+([\s\S]+?))?\n?$/.exec(item) ?? []
      return names.split(', ').map((name) => [name + of, note] as const)
    }),
  )
}

/** Returns a list with an item for all options of one requirement and one note. */
async function listOf(takers: readonly OptionsTaker[], notes: ReadonlyMap<string, string>): Promise<string> {
  const options = new Map<string, { readonly name: string; readonly of: string[]; readonly takes: string }>()
  for (const taker of takers) {
    for (const option of await knownTo(taker)) {
      const takes = textOf(await requirementOf(taker, option))
      const name = `\`${taker.member === undefined ? option : `${taker.member}.${option}`}\``
      const of = taker.member === undefined ? [`\`${taker.name}\``] : []
      const key = `${name}: ${takes}`
      options.set(key, { name, takes, of: [...(options.get(key)?.of ?? []), ...of] })
    }
  }
  const functions = new Set(takers.filter(({ member }) => member === undefined).map(({ name }) => name)).size
  const items: (readonly [names: string[], rest: string])[] = []
  for (const { name, of, takes } of options.values()) {
    const owners = functions === 1 || of.length === functions ? '' : ` of ${of.join(', ')}`
    const rest = `${owners}: ${[`${takes}.`, notes.get(name + owners)].filter(Boolean).join(' ')}\n`
    const same = items.find(([, text]) => text === rest)
    if (same === undefined) items.push([[name], rest])
    else same[0].push(name)
  }
  return items.map(([names, rest]) => `- ${names.join(', ')}${rest}`).join('')
}

/** Returns a requirement in Markdown. The page says once how large numbers may be. */
function textOf({ takes, isNeeded, excludes }: Requirement): string {
  const text = takes
    .replace(/ and at most 2147483647$/, '')
    .replace(/ (?:from (\d+) to 2147483647|of at least (\d+))$/, (_, from, least) => ` from ${from ?? least}`)
    .replace('an absolute URL that starts with http:// or https://', 'an http or https URL')
    .replace(/\{.*\}|\[[^\]]*\]|(?<!\w)'[^']*'|\b[\w…]+\([^)]*\)/g, '`$&`')
    .replace(/`[^`]*`|\d{5,}/g, (part) =>
      part.startsWith('`') ? part : part.replace(/\B(?=(?:\d{3})+$)/g, ' '),
    )
  return [text, isNeeded ? 'needed' : '', excludes === undefined ? '' : `not together with \`${excludes}\``]
    .filter((part) => part !== '')
    .join('; ')
}

/** Returns the page as it is. */
export function readPage(): string {
  return readFileSync(PAGE, 'utf8')
}
