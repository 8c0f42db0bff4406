import { type ParseArgsConfig, parseArgs } from 'node:util'
import { nearestName } from '../src/options/nearest-name.ts'
import { UsageError } from './usage-error.ts'

/** Options of a command. Every one is a text, and given once. */
export type TextOptions = Readonly<Record<string, { readonly type: 'string' }>>

/** What was given on a command line. */
export interface GivenArguments<Options extends TextOptions> {
  readonly help: boolean
  readonly values: { readonly [Name in keyof Options]?: string | undefined }
  readonly positionals: readonly string[]
}

/** Reads the arguments of a command that has these options and `--help`. @throws {UsageError} which quotes no value */
export function readArguments<Options extends TextOptions>(
  argv: readonly string[],
  options: Options,
): GivenArguments<Options> {
  const known: ParseArgsConfig['options'] = { ...options, help: { type: 'boolean', short: 'h' } }
  try {
    const { values, positionals } = parseArgs({ args: [...argv], options: known, allowPositionals: true })
    const { help, ...texts } = values as { help?: boolean }
    return { help: help === true, values: texts as GivenArguments<Options>['values'], positionals }
  } catch (error) {
    throw inOurWords(error as Error & { code?: string }, argv, Object.keys(known))
  }
}

/** Node's messages have several lines, and quote. */
function inOurWords(
  { code, message }: Error & { code?: string },
  argv: readonly string[],
  known: readonly string[],
): UsageError {
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') {
    const unknown = argv
      .map((argument) => argument.split('=', 1)[0] as string)
      .find(
        (argument) =>
          /^--?[a-z][a-z-]{0,40}$/i.test(argument) && !known.includes(argument.replace(/^-+/, '')),
      )
    if (unknown === undefined) return new UsageError('there is an unknown option: see --help')
    const meant = nearestName(unknown.replace(/^-+/, ''), known)
    return new UsageError(
      `there is no option ${unknown}${meant === undefined ? ': see --help' : `. Did you mean --${meant}?`}`,
    )
  }
  const named = known.find((name) => message.includes(`--${name}`))
  if (named === undefined) return new UsageError('the options cannot be read: see --help')
  if (named === 'help') return new UsageError('--help takes no value')
  return new UsageError(`--${named} needs a value; one that begins with a dash is written --${named}=…`)
}
