import { MAX_TIMER_MS } from '../timers.ts'
import { describeKind, describeValue, quotedName } from './describe-value.ts'
import { didYouMean, nearestName } from './nearest-name.ts'
import type { OptionRule, OptionRules, ReadBy } from './option-rules.ts'
import { isRecord } from './value-kinds.ts'

/** An option that was rejected. */
export interface OptionProblem {
  readonly kind: 'missing' | 'invalid' | 'unknown'
  /** The name of the option, for programs. */
  readonly option: string
  /** The option, or the function, that the message is about. */
  readonly owner: string
  /** The message in full sentences, without the command that prints help. */
  readonly message: string
}

/** The received value, and a sentence with the fix. Without a value, the message does not say what was received. */
type Received = readonly [value?: unknown, fix?: string | undefined]

/** Throws if a value does not fit an option. */
export type OptionCheck = (option: string, value: unknown) => unknown

/** Checks of options that throw errors of one class, and functions that build these errors. */
export type OptionKit<Failure extends Error> = ReturnType<typeof optionKit<Failure>>

/** Returns `true` for a plain object, also of another realm. Options of other objects, such as a `Map`, would be ignored. */
export function isOptionsObject(value: unknown): value is object {
  if (!isRecord(value)) return false
  const prototype: object | null = Object.getPrototypeOf(value)
  return (
    prototype === null ||
    (Object.getPrototypeOf(prototype) === null && Object.hasOwn(prototype, 'constructor'))
  )
}

/** Adds the command that prints the help for an anchor of `docs/reference/errors.md` to a message. */
export function withHelp(message: string, anchor: string): string {
  return `${sentence(message)} Run "npx mcp-gatekit explain ${anchor}" for help.`
}

/** Applies each rule to its option. The resolved object is frozen. */
function read<Rules extends OptionRules>(options: object, rules: Rules, prefix: string): ReadBy<Rules> {
  const given = options as Readonly<Record<string, unknown>>
  const resolved = Object.entries(rules).map(([option, rule]) => [
    option,
    rule(prefix + option, given[option], given),
  ])
  return Object.freeze(Object.fromEntries(resolved))
}

/** Builds the checks whose errors `makeError` makes. */
export function optionKit<Failure extends Error>(makeError: (problem: OptionProblem) => Failure) {
  function invalid(option: string, problem: string, fix?: string): Failure {
    const message = `${sentence(`${option} ${problem}`)}${fixOf(fix)}`
    return makeError({ kind: 'invalid', option, owner: option, message })
  }

  const invalidOption = (option: string, expected: string, ...received: Received): Failure =>
    invalid(
      option,
      received.length === 0 ? expected : `${expected}; received ${describeValue(received[0])}`,
      received[1],
    )

  const invalidKind = (option: string, expected: string, value: unknown, fix?: string): Failure =>
    invalid(option, `${expected}; received ${describeKind(value)}`, fix)

  const fittingWith =
    (failure: typeof invalidKind) =>
    <Value>(fits: (value: any) => boolean, expected: string, fix?: string) =>
    (option: string, value: unknown): Value => {
      if (!fits(value)) throw failure(option, expected, value, fix)
      return value as Value
    }
  /** The rule of a value that `fits` accepts. The error shows another value. */
  const fitting = fittingWith(invalidOption)
  /** Like `fitting`, but the error describes the value only by its kind and length, because it may be a secret. */
  const fittingKind = fittingWith(invalidKind)

  const kit = {
    missingOption: (option: string, fix: string): Failure =>
      makeError({ kind: 'missing', option, owner: option, message: `${option} is missing.${fixOf(fix)}` }),

    /** `<option> <expected>; received <value>. <Fix>.` `expected` begins with a verb: `must be a string`. */
    invalidOption,

    /** Like `invalidOption`, but describes the value only by its kind and length, because it may be a secret. */
    invalidKind,

    /** `<option> <problem>. <Fix>.`, for a problem that does not need the value. */
    unusableOption: invalid,

    /**
     * Rejects options that do not exist, and suggests the nearest one.
     * @param aliases other words for known options.
     */
    checkKnownOptions(
      owner: string,
      value: object,
      known: readonly string[],
      aliases: Readonly<Record<string, string>> = {},
      prefix = '',
    ): void {
      const unknown = Object.keys(value).find((option) => !known.includes(option))
      if (unknown === undefined) return
      const alias = Object.hasOwn(aliases, unknown) ? aliases[unknown] : undefined
      const message = `${owner} has no option ${quotedName(unknown)}.${didYouMean(alias ?? unknown, known)} Known options: ${known.join(', ')}.`
      throw makeError({ kind: 'unknown', option: prefix + unknown, owner, message })
    },

    /** Like `checkKnownOptions`, for an option that is an object. Its members are named `sessions.max`. */
    checkKnownMembers: (option: string, value: object, known: readonly string[]): void =>
      kit.checkKnownOptions(option, value, known, {}, `${option}.`),

    /**
     * Copies an options object and checks each member. `undefined` is not checked.
     * @param owner the function that takes the object, without parentheses, such as `withSampling`.
     */
    copyOptions<T extends object>(
      owner: string,
      options: T,
      checks: { readonly [Member in keyof T]-?: OptionCheck },
      aliases?: Readonly<Record<string, string>>,
    ): T {
      if (!isOptionsObject(options))
        throw kit.invalidKind(`the argument of ${owner}()`, 'must be an object', options)
      kit.checkKnownOptions(`${owner}()`, options, Object.keys(checks), aliases)
      const copy: Record<string, unknown> = {}
      for (const [member, value] of Object.entries(options)) {
        if (value !== undefined) checks[member as keyof T](`${owner}({ ${member} })`, value)
        copy[member] = Array.isArray(value) ? Object.freeze([...value]) : value
      }
      return Object.freeze(copy) as T
    },

    /**
     * Reads an options object by a table of rules, into a frozen object. Unknown options are rejected.
     * @param owner the function that takes the object, as errors about unknown options name it.
     * @param expected the requirement of an argument that is not an object: `must be an object with { url }`.
     * @param argument the argument, as that error names it. Defaults to `owner`.
     */
    readOptions<Rules extends OptionRules>(
      owner: string,
      expected: string,
      options: unknown,
      rules: Rules,
      argument: string = owner,
    ): ReadBy<Rules> {
      if (!isOptionsObject(options)) throw kit.invalidKind(argument, expected, options)
      kit.checkKnownOptions(owner, options, Object.keys(rules))
      return read(options, rules, '')
    },

    /** Reads an option that is an object, and whose members are named `sessions.max` in errors. */
    readMembers<Rules extends OptionRules>(option: string, options: object, rules: Rules): ReadBy<Rules> {
      kit.checkKnownMembers(option, options, Object.keys(rules))
      return read(options, rules, `${option}.`)
    },

    /** The rule of an option that must be given. `null` counts as omitted. */
    required:
      <Value>(rule: OptionRule<Value>, fix: string): OptionRule<Value> =>
      (option, value, given) => {
        if (value === undefined || value === null) throw kit.missingOption(option, fix)
        return rule(option, value, given)
      },

    /** The rule of a whole number. */
    wholeNumber:
      (min: number, max?: number): OptionRule<number> =>
      (option, value) =>
        kit.checkWholeNumber(option, value, min, max),

    /** The rule of a number of milliseconds that a timer can wait for. Fractions are rounded up, because some timers reject them. */
    milliseconds:
      (min: 0 | 'more than 0'): OptionRule<number> =>
      (option, value) =>
        Math.ceil(kit.checkMs(option, value, min)),

    /** The rule of a function. */
    callable:
      <Callable>(fix: string): OptionRule<Callable> =>
      (option, value) => {
        kit.checkFunction(option, value, fix)
        return value as Callable
      },

    /** The rule of one of several strings. */
    oneOf:
      <const Choice extends string>(choices: readonly Choice[]): OptionRule<Choice> =>
      (option, value) =>
        kit.checkOneOf(option, value, choices),

    /** The rule of an object, whose members are named as in `readMembers`. `expected` is as in `invalidKind`. */
    members:
      <Rules extends OptionRules>(expected: string, rules: Rules): OptionRule<ReadBy<Rules>> =>
      (option, value) => {
        if (!isOptionsObject(value)) throw kit.invalidKind(option, expected, value)
        return kit.readMembers(option, value, rules)
      },

    /** The rule of an array with at least `min` items. Each item has the name of the option. */
    items:
      <Value>(
        expected: string,
        rule: OptionRule<Value>,
        min = 0,
        fix?: string,
      ): OptionRule<readonly Value[]> =>
      (option, value, given) => {
        if (!Array.isArray(value) || value.length < min) throw kit.invalidKind(option, expected, value, fix)
        return Object.freeze(Array.from(value, (item: unknown) => rule(option, item, given)))
      },

    /** The rule of an object that has some functions. */
    withFunctions:
      <Value extends object>(
        expected: string,
        names: readonly (keyof Value & string)[],
        fix: string,
      ): OptionRule<Value> =>
      (option, value) => {
        if (!isRecord(value)) throw kit.invalidKind(option, expected, value)
        for (const name of names) kit.checkFunction(`${option}.${name}`, value[name], fix)
        return value as Value
      },

    fitting,
    fittingKind,

    /** The rule of a string that is not empty. */
    text: fitting<string>(isText, 'must be a non-empty string'),

    /** The rule of a string that is not empty and may be a secret. */
    secret: fittingKind<string>(isText, 'must be a non-empty string'),

    checkBoolean: fitting<boolean>((value) => typeof value === 'boolean', 'must be true or false'),

    /** A string, which may be empty. */
    checkString: fitting<string>((value) => typeof value === 'string', 'must be a string'),

    /** A frozen copy of an array of non-empty strings. */
    checkTexts(option: string, value: unknown): readonly string[] {
      if (!Array.isArray(value)) throw kit.invalidKind(option, 'must be an array of non-empty strings', value)
      const expected = 'must contain only non-empty strings'
      for (const [index, item] of value.entries())
        if (!isText(item)) throw kit.invalidKind(option, expected, item, `Check item ${index}.`)
      return Object.freeze([...value])
    },

    checkWholeNumber(option: string, value: unknown, min: number, max = MAX_TIMER_MS): number {
      if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max) {
        const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`
        throw kit.invalidOption(option, `must be a whole number ${range}`, value)
      }
      return value
    },

    /** A number of milliseconds that a timer can wait for. */
    checkMs(option: string, value: unknown, min: 0 | 'more than 0'): number {
      if (isTime(value, min)) return value
      const range = `${min === 0 ? 'of at least 0' : 'above 0'} and at most ${MAX_TIMER_MS}`
      throw kit.invalidOption(option, `must be a number of milliseconds ${range}`, value)
    },

    /** @param fix an imperative clause, such as `set it to a function that returns headers` */
    checkFunction(option: string, value: unknown, fix: string): void {
      if (value === undefined || value === null) throw kit.missingOption(option, fix)
      if (typeof value !== 'function') throw kit.invalidKind(option, 'must be a function', value, fix)
    },

    checkOneOf<const Choice extends string>(
      option: string,
      value: unknown,
      choices: readonly Choice[],
    ): Choice {
      const chosen = choices.find((choice) => choice === value)
      if (chosen !== undefined) return chosen
      const listed = choices.map((choice) => `'${choice}'`)
      const last = listed.pop()
      const expected = listed.length === 0 ? last : `${listed.join(', ')} or ${last}`
      const meant = typeof value === 'string' ? nearestName(value, choices) : undefined
      const fix = meant === undefined ? undefined : `Did you mean '${meant}'?`
      throw kit.invalidOption(option, `must be ${expected}`, value, fix)
    },
  }
  return kit
}

/** Returns `true` for a string that is not empty. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** Returns `true` for a number, fractions included, that a timer can wait for. */
export function isTime(value: unknown, min: 0 | 'more than 0'): value is number {
  return typeof value === 'number' && (min === 0 ? value >= 0 : value > 0) && value <= MAX_TIMER_MS
}

function fixOf(fix: string | undefined): string {
  return fix === undefined ? '' : ` ${sentence(fix.charAt(0).toUpperCase() + fix.slice(1))}`
}

function sentence(text: string): string {
  return /[.?!]$/.test(text) ? text : `${text}.`
}
