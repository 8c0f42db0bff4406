import { type ParseArgsConfig, parseArgs } from 'node:util'
import { nearestName } from '../src/base/options/nearest-name.ts'

/** The part of a writable stream that the commands use. */
export interface Output {
  readonly isTTY?: boolean | undefined
  write(text: string): unknown
}

/** The streams and the environment of a command. */
export interface CliContext {
  readonly stdout: Output
  readonly stderr: Output
  readonly env: Readonly<Record<string, string | undefined>>
}

/** Returns `true` if a stream is a terminal that shows colors and the user has not disabled them (no-color.org). */
export function showsColors({ isTTY }: Output, { NO_COLOR, TERM }: CliContext['env']): boolean {
  return isTTY === true && (NO_COLOR === undefined || NO_COLOR === '') && TERM !== 'dumb'
}

/** Returns a function that makes text bold on a terminal that shows colors. */
export function boldOn(output: Output, env: CliContext['env']): (text: string) => string {
  return showsColors(output, env) ? (text) => `\x1b[1m${text}\x1b[0m` : (text) => text
}

/** An invalid command line. The message is one line and contains no value that can be a secret. */
export class UsageError extends Error {
  override readonly name: string = 'UsageError'
  /** The exit code of the program. */
  readonly exitCode: number = 2
}

/** A valid command line whose command has failed, such as a file that cannot be written. */
export class CommandFailure extends UsageError {
  override readonly name = 'CommandFailure'
  override readonly exitCode = 1
}

/** Returns the code of an error of the file system. @throws the error, if it is another one */
export function fileErrorCode(error: unknown): string {
  const { code } = error as { readonly code?: unknown }
  if (typeof code !== 'string') throw error
  return code
}

/** @throws {UsageError} with the message, unless the value is right */
export function checkUsage(isRight: boolean, message: string): asserts isRight {
  if (!isRight) throw new UsageError(message)
}

/** Runs a command with the arguments after its name. Resolves with the exit code. @throws {UsageError} */
export type Command = (argv: readonly string[], context: CliContext) => Promise<number>

/**
 * Returns a command that reads its arguments, and prints its help for `--help`.
 * @param help also defines the options: those at the beginning of its lines, with a value if `<` follows the name
 * @param stopsAtPositional everything from the first positional argument on is a positional argument
 */
export function defineCommand(
  help: string,
  run: (args: Arguments, context: CliContext) => Promise<number>,
  stopsAtPositional = false,
): Command {
  return async (argv, context) => {
    const args = new Arguments(help, argv, stopsAtPositional)
    if (!args.has('help')) return await run(args, context)
    context.stdout.write(help)
    return 0
  }
}

type Options = NonNullable<ParseArgsConfig['options']>

/** The arguments of one command. */
export class Arguments {
  readonly positionals: readonly string[]
  readonly #values: Readonly<Record<string, readonly unknown[] | undefined>>

  /** @throws {UsageError} with a message that contains no value of an option */
  constructor(help: string, argv: readonly string[], stopsAtPositional: boolean) {
    const options: Options = {}
    for (const [, name = '', value] of help.matchAll(/^ {2}(?:-h, )?--([a-z-]+)( <)?/gm))
      options[name] = { type: value === undefined ? 'boolean' : 'string', multiple: true }
    if (options.help !== undefined) options.help.short = 'h'
    const end = stopsAtPositional ? indexOfPositional(argv, options) : argv.length
    try {
      const args = argv.slice(0, end)
      const { values, positionals } = parseArgs({ args, options, allowPositionals: true })
      this.#values = values as Record<string, readonly unknown[]>
      this.positionals = [...positionals, ...argv.slice(end)]
    } catch (error) {
      throw usageErrorOf(error as Error & { code?: string }, argv, options)
    }
  }

  has(name: string): boolean {
    return this.#values[name] !== undefined
  }

  /** Returns the values of an option that can be repeated. */
  all(name: string): readonly string[] {
    return (this.#values[name] ?? []) as readonly string[]
  }

  /** Returns the last value of an option. @throws {UsageError} with the rule, unless the value is right */
  text(name: string, isRight?: (text: string) => boolean, rule?: string): string | undefined {
    const text = this.all(name).at(-1)
    checkUsage(text === undefined || isRight?.(text) !== false, `--${name} must ${rule}`)
    return text
  }

  /** @throws {UsageError} if the value is not an integer in this range */
  number(name: string, min: number, max: number): number | undefined {
    const isRight = (text: string): boolean =>
      /^\d{1,5}$/.test(text) && Number(text) >= min && Number(text) <= max
    const text = this.text(name, isRight, `be a number from ${min} to ${max}`)
    return text === undefined ? undefined : Number(text)
  }

  port(name: string): number | undefined {
    return this.number(name, 0, 65_535)
  }

  /** Returns the value of the environment variable that an option names. @throws {UsageError} if it is not set */
  fromEnv(name: string, env: CliContext['env']): string | undefined {
    const variable = this.text(name)
    if (variable === undefined) return undefined
    const value = Object.hasOwn(env, variable) ? env[variable] : undefined
    // The name is not printed: it is a secret if a user passes the secret itself.
    checkUsage(!!value, `--${name} must be the name of an environment variable that is set`)
    return value
  }
}

/** Returns the index of the first positional argument, after a `--` that separates it from the options. */
function indexOfPositional(args: readonly string[], options: Options): number {
  const { tokens } = parseArgs({ args, options, allowPositionals: true, strict: false, tokens: true })
  const first = tokens.find(({ kind }) => kind !== 'option')
  return first === undefined ? args.length : first.index + Number(first.kind === 'option-terminator')
}

/** Replaces a message of Node.js, which has several lines and can contain a value. */
function usageErrorOf(
  { code, message }: Error & { code?: string },
  argv: readonly string[],
  options: Options,
): UsageError {
  if (code === 'ERR_PARSE_ARGS_UNKNOWN_OPTION') return unknownOption(argv, Object.keys(options))
  const named = /--([a-z-]+)/.exec(message)?.[1] ?? ''
  const type = options[named]?.type
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
