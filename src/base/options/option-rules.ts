/**
 * The rule of one option. It returns the resolved value, or throws.
 * @param value the given value; `undefined` if the option is omitted.
 * @param given all given options, for rules that depend on another option.
 */
export type OptionRule<Value> = (
  option: string,
  value: unknown,
  given: Readonly<Record<string, unknown>>,
) => Value

/** The rules of a function, by option, in the order in which errors list them. */
export type OptionRules = Readonly<Record<string, OptionRule<unknown>>>

/** A table with a rule for each member of an options type: `} satisfies RulesFor<SomeOptions>`. */
export type RulesFor<Options> = { readonly [Option in keyof Options]-?: OptionRule<unknown> }

/** The resolved options of a table of rules. */
export type ReadBy<Rules extends OptionRules> = {
  readonly [Option in keyof Rules]: ReturnType<Rules[Option]>
}

/** The rule of an option that may be omitted. Without a fallback, it is then `undefined`. */
export function optional<Value>(rule: OptionRule<Value>): OptionRule<Value | undefined>
export function optional<Value, const Fallback>(
  rule: OptionRule<Value>,
  fallback: Fallback,
): OptionRule<Value | Fallback>
export function optional(rule: OptionRule<unknown>, fallback?: unknown): OptionRule<unknown> {
  return (option, value, given) => (value === undefined ? fallback : rule(option, value, given))
}

/** A rule with a further check of the resolved value, which throws. */
export function also<Value>(
  rule: OptionRule<Value>,
  check: (option: string, value: Value, given: Readonly<Record<string, unknown>>) => void,
): OptionRule<Value> {
  return (option, value, given) => {
    const resolved = rule(option, value, given)
    check(option, resolved, given)
    return resolved
  }
}

/** The rule of an option that is read as `{}` if it is omitted, so that its members have their defaults. */
export function orEmpty<Value>(rule: OptionRule<Value>): OptionRule<Value> {
  return (option, value = {}, given) => rule(option, value, given)
}

/** The rule of an option whose value is used as it is. Types, or a rule of another option, check it. */
export function unchecked<Value>(): OptionRule<Value> {
  return (_option, value) => value as Value
}
