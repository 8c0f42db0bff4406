import { posix } from 'node:path'
import { type CliContext, showsColors } from '../cli-context.ts'
import { UsageError } from '../usage-error.ts'
import { EXPLAIN_HELP, parseExplainArguments } from './arguments.ts'
import {
  type EntryKind,
  type ErrorReference,
  type ReferenceEntry,
  readErrorReference,
} from './error-reference.ts'
import { bold, terminalText } from './terminal-text.ts'

const DEFAULT_WIDTH = 80
/** Longer lines are hard to read, also on a wide terminal. */
const MAX_WIDTH = 100

const GROUPS: readonly (readonly [EntryKind, title: string])[] = [
  ['error code', 'Error codes'],
  ['option', 'Options, and functions that take options'],
  ['other', 'Error classes and HTTP responses'],
]

/** Runs `mcp-gatekit explain …`. Resolves with the exit code. @throws {UsageError} */
export async function explainCommand(argv: readonly string[], { stdout, env }: CliContext): Promise<number> {
  const command = parseExplainArguments(argv)
  if (command.kind === 'help') {
    stdout.write(EXPLAIN_HELP)
    return 0
  }
  const reference = readErrorReference()
  const colors = showsColors(stdout, env)
  if (command.kind === 'list') {
    stdout.write(listText(reference, colors))
    return 0
  }
  const entry = reference.find(command.code)
  if (entry === undefined) {
    const nearest = reference.nearest(command.code)
    throw new UsageError(
      `unknown code. ${nearest === undefined ? 'Run mcp-gatekit explain for a list' : `Did you mean ${nearest}?`}`,
    )
  }
  const width = Math.min(stdout.columns ?? DEFAULT_WIDTH, MAX_WIDTH)
  stdout.write(entryText(entry, reference, width, colors))
  return 0
}

function listText({ entries }: ErrorReference, colors: boolean): string {
  const groups = GROUPS.map(([kind, title]) => {
    const codes = entries.filter((entry) => entry.kind === kind).map(({ code }) => `  ${code}\n`)
    return `${bold(`${title}:`, colors)}\n${codes.join('')}\n`
  })
  return `${groups.join('')}Run mcp-gatekit explain <code> for the help of one of them.\n`
}

function entryText(entry: ReferenceEntry, reference: ErrorReference, width: number, colors: boolean): string {
  const describeLink = (text: string, target: string): string | undefined =>
    describeTarget(text, target, reference)
  const options = { width, colors, describeLink }
  const more = entry.children.map((code) => `\`${code}\``).join(', ')
  return [
    bold(entry.heading, colors),
    terminalText(entry.body, options),
    ...(more === ''
      ? []
      : [terminalText(`For details, run \`mcp-gatekit explain\` with one of: ${more}`, options)]),
  ]
    .join('\n\n')
    .concat('\n')
}

/** Returns the place that a link leads to: another code, a page of the documentation, or a URL. */
function describeTarget(text: string, target: string, reference: ErrorReference): string | undefined {
  if (target.startsWith('#')) {
    const code = reference.find(target)?.code
    return code === undefined || code === text.replaceAll('`', '') ? undefined : `explain ${code}`
  }
  if (/^[a-z]+:/i.test(target)) return target === text ? undefined : target
  return posix.join('docs/reference', target)
}
