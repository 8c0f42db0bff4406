import { type ParseArgsConfig, parseArgs } from 'node:util'
import { nearestName } from '../src/options/nearest-name.ts'
import type { CliContext } from './cli-context.ts'
import { UsageError } from './usage-error.ts'

const MAX_PORT = 65_535

/** An option of a command. */
export interface OptionDefinition {
  readonly type: 'string' | 'boolean' | 'port'
  /** Allows a string option to be repeated. */
  readonly multiple?: true
}

export type OptionDefinitions = Readonly<Record<string, OptionDefinition>>

type ValueOf<Definition extends OptionDefinition> = Definition extends { readonly multiple: true }
  ? readonly string[]
  : Definition extends { readonly type: 'boolean' }
    ? boolean
    : (Definition extends { readonly type: 'port' } ? number : string) | undefined

/** The arguments of one command. */
export interface ReadArguments<Definitions extends OptionDefinitions> {
  /** `true` if `--help` or `-h` was given. */
  readonly help: boolean
  readonly values: { readonly [Name in keyof Definitions]: ValueOf<Definitions[Name]> }
  readonly positionals: readonly string[]
}

/** Runs a command with the arguments after its name. Resolves with the exit code. @throws {UsageError} */
export type Command = (argv: readonly string[], context: CliContext) => Promise<number>

/** A command with its options. */
interface CommandDefinition<Definitions extends OptionDefinitions> {
  /** The text that `--help` prints. */
  readonly help: string
  readonly options: Definitions
  /** Everything from the first positional argument on is a positional argument. */
  readonly stopsAtPositional?: boolean
  /** Runs the command. Resolves with the exit code. @throws {UsageError} */
  run(args: ReadArguments<Definitions>, context: CliContext): Promise<number>
}

/** Returns a command that reads its arguments, and prints its help for `--help`. */
export function defineCommand<const Definitions extends OptionDefinitions>({
  help,
  options,
  stopsAtPositional = false,
  run,
}: CommandDefinition<Definitions>): Command {
  return async (argv, context) => {
    const args = readArguments(argv, options, { stopsAtPositional })
    if (!args.help) return await run(args, context)
    context.stdout.write(help)
    return 0
  }
}

/**
 * Reads the arguments of a command that has the given options and `--help`.
 * @param settings with `stopsAtPositional`, everything from the first positional argument on is a positional argument
 * @throws {UsageError} with a message that contains no value of an option
 */
export function readArguments<const Definitions extends OptionDefinitions>(
  argv: readonly string[],
  definitions: Definitions,
  { stopsAtPositional = false }: { readonly stopsAtPositional?: boolean } = {},
): ReadArguments<Definitions> {
  const known: OptionDefinitions = { ...definitions, help: { type: 'boolean' } }
  const end = stopsAtPositional ? indexOfPositional(argv, known) : argv.length
  const { values, positionals } = parse(argv.slice(0, end), known)
  const read = Object.entries(definitions).map(([name, { type, multiple }]) => {
    const value = values[name]
    if (type === 'boolean') return [name, value === true]
    if (type === 'port') return [name, readPort(name, value as string | undefined)]
    return [name, multiple === true ? (value ?? []) : value]
  })
  return {
    help: values.help === true,
    values: Object.fromEntries(read) as ReadArguments<Definitions>['values'],
    positionals: [...positionals, ...argv.slice(end)],
  }
}

/** Returns the index of the first positional argument, after a `--` that separates it from the options. */
function indexOfPositional(argv: readonly string[], known: OptionDefinitions): number {
  for (let index = 0; index < argv.length; index++) {
    const argument = argv[index] as string
    if (argument === '--') return index + 1
    if (!argument.startsWith('-')) return index
    const type = known[argument.replace(/^--/, '')]?.type
    if (type !== undefined && type !== 'boolean') index++
  }
  return argv.length
}

function parse(argv: readonly string[], known: OptionDefinitions) {
  const options = Object.fromEntries(
    Object.entries(known).map(([name, { type, multiple = false }]) => [
      name,
      {
        type: type === 'boolean' ? type : 'string',
        multiple,
        ...(name === 'help' && { short: 'h' }),
      } as const,
    ]),
  ) satisfies ParseArgsConfig['options']
  try {
    return parseArgs({ args: [...argv], options, allowPositionals: true })
  } catch (error) {
    throw usageErrorOf(error as Error & { code?: string }, argv, known)
  }
}

/** Replaces a message of Node.js, which has several lines and can contain a value. */
function usageErrorOf(
  { code, message }: Error & { code?: string },
  argv: readonly string[],
  known: OptionDefinitions,
): UsageError {
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') return unknownOption(argv, Object.keys(known))
  const named = /--([a-z-]+)/.exec(message)?.[1] ?? ''
  const type = known[named]?.type
  if (type === undefined) return new UsageError('the options are invalid. Run the command with --help')
  return new UsageError(
    type === 'boolean'
      ? `--${named} takes no value`
      : `--${named} requires a value. Write --${named}=… if the value begins with a dash`,
  )
}

function unknownOption(argv: readonly string[], known: readonly string[]): UsageError {
  const unknown = argv
    .filter((argument) => argument.startsWith('-') && argument !== '-h')
    .map((argument) => argument.split('=', 1)[0] as string)
    .find((argument) => !known.includes(argument.replace(/^--/, '')))
  // Other strings after a dash, such as a token, are not misspelled options and must not be printed.
  if (unknown === undefined || !/^--?[a-z][a-z-]{0,40}$/i.test(unknown))
    return new UsageError('unknown option. Run the command with --help')
  const nearest = nearestName(unknown.replace(/^-+/, ''), known)
  return new UsageError(
    `unknown option ${unknown}. ${nearest === undefined ? 'Run the command with --help' : `Did you mean --${nearest}?`}`,
  )
}

function readPort(name: string, value: string | undefined): number | undefined {
  if (value === undefined) return undefined
  const port = Number(value)
  if (!/^\d{1,5}$/.test(value) || port > MAX_PORT)
    throw new UsageError(`--${name} must be a number from 0 to ${MAX_PORT}`)
  return port
}
