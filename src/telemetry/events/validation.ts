import type { StandardSchemaV1 } from '@standard-schema/spec'
import { memberOf, quotedName } from '../../base/options/describe-value.ts'
import { isPromiseLike, isRecord } from '../../base/options/value-kinds.ts'
import type { TelemetryConfig } from '../config.ts'
import type { KitTelemetryError } from '../errors.ts'
import { errorWithHelp, telemetryOptions, withDefaults } from '../options.ts'
import type { TelemetryEventSchema } from './schema.ts'

const { checkBoolean, checkOneOf, copyOptions } = telemetryOptions

/** The options of `KitTelemetry.withValidation()`. */
export interface TelemetryValidationOptions {
  /**
   * The events that are validated. `development` validates all events unless `NODE_ENV` is `production` when the manager
   * is built. Defaults to `development`.
   */
  readonly mode?: 'development' | 'always' | 'none' | undefined
  /** Rejects attributes that the schema does not declare. Defaults to `false`. */
  readonly strict?: boolean | undefined
}

type Attributes = Readonly<Record<string, unknown>>

/** Validation options with all defaults. */
type ResolvedValidationOptions = TelemetryConfig['validation']

const DEFAULTS: ResolvedValidationOptions = Object.freeze({ mode: 'development', strict: false })

/** Copies and checks options. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if one is invalid. */
export function copyValidationOptions(
  method: string,
  options: TelemetryValidationOptions,
): TelemetryValidationOptions {
  return copyOptions<TelemetryValidationOptions>(method, options, {
    mode: (option, value) => checkOneOf(option, value, ['development', 'always', 'none']),
    strict: checkBoolean,
  })
}

export function resolveValidationOptions(
  options: TelemetryValidationOptions,
  defaults: ResolvedValidationOptions = DEFAULTS,
): ResolvedValidationOptions {
  return Object.freeze(withDefaults<ResolvedValidationOptions>(defaults, options))
}

/** Returns `true` if a mode validates events in this process. */
export function isValidationOn(mode: ResolvedValidationOptions['mode']): boolean {
  return mode === 'always' || (mode === 'development' && nodeEnvironment() !== 'production')
}

/** Bundlers for browsers replace `process.env.NODE_ENV`. Without such a bundler, reading it throws in a browser. */
function nodeEnvironment(): string | undefined {
  try {
    return process.env.NODE_ENV
  } catch {
    return undefined
  }
}

/**
 * The path of an invalid attribute, and its expected type. The value and the message of the schema library are left out,
 * because they may be secret.
 */
interface ValidationIssue {
  readonly path: readonly (string | number)[]
  readonly expected?: string
}

/** The types that a message names. Issues can contain any string, so all others are left out. */
const TYPES: Readonly<Record<string, string>> = {
  array: 'an array',
  bigint: 'a bigint',
  boolean: 'a boolean',
  date: 'a Date',
  int: 'an integer',
  integer: 'an integer',
  map: 'a Map',
  never: 'omitted',
  null: 'null',
  number: 'a number',
  object: 'an object',
  record: 'an object',
  set: 'a Set',
  string: 'a string',
  tuple: 'an array',
  undefined: 'undefined',
}

/** The maximum number of issues in `details`. */
const MAX_ISSUES = 20

/** The maximum number of issues in the message. */
const MAX_NAMED = 5

/**
 * Returns `TELEMETRY_SCHEMA_VALIDATION_FAILED` if attributes do not match a schema. Its `details.issues` is
 * `[{ path: [key, …] }]`, and is missing if the schema itself cannot be used. The message also names the expected types. An event without attributes is valid if its schema accepts `{}` or `undefined`.
 * @param common the attributes of every event, which the schema need not declare.
 */
export function attributesError(
  event: string,
  schema: TelemetryEventSchema,
  attributes: unknown,
  strict: boolean,
  common?: Attributes,
): KitTelemetryError | undefined {
  let issues: ValidationIssue[]
  try {
    issues = schemaIssues(schema, attributes ?? {}, strict, common)
  } catch (cause) {
    return schemaError(event, cause)
  }
  if (issues.length > 0 && attributes === undefined && schemaIssues(schema, undefined, false).length === 0)
    issues = []
  if (issues.length === 0) return undefined
  const more =
    issues.length > MAX_NAMED ? `, and ${(issues.length - MAX_NAMED).toLocaleString('en-US')} more` : ''
  const where = issues.slice(0, MAX_NAMED).map(placeOf).join(', ')
  return errorWithHelp(
    'TELEMETRY_SCHEMA_VALIDATION_FAILED',
    `the attributes of event ${quotedName(event)} do not match its schema at ${where}${more}`,
    { details: { issues: issues.slice(0, MAX_ISSUES).map(({ path }) => ({ path })) } },
  )
}

/** Returns the error of a schema that cannot be used. Schemas of zod return a promise that rejects if they throw. */
function schemaError(event: string, cause: unknown): KitTelemetryError {
  const [problem, details] =
    cause === ASYNCHRONOUS
      ? ['returned a promise. It is asynchronous, or threw an error. Use a synchronous schema', {}]
      : ['threw an error, which is the cause. Correct the schema', { cause }]
  return errorWithHelp(
    'TELEMETRY_SCHEMA_VALIDATION_FAILED',
    `the schema of event ${quotedName(event)} ${problem}`,
    details,
  )
}

/** Stands for the result of an asynchronous schema. */
const ASYNCHRONOUS: unique symbol = Symbol('asynchronous')

/** @throws `ASYNCHRONOUS`, or the error of the schema. */
function schemaIssues(
  schema: TelemetryEventSchema,
  value: unknown,
  strict: boolean,
  common?: Attributes,
): ValidationIssue[] {
  const isMerged = common !== undefined && isRecord(value)
  const result = schema['~standard'].validate(isMerged ? withCommon(value, common) : value)
  if (isPromiseLike(result)) {
    Promise.resolve(result).then(undefined, () => {})
    throw ASYNCHRONOUS
  }
  const { issues } = result
  if (issues?.length === 0) return [{ path: [] }]
  if (issues) return issues.filter((issue) => !(isMerged && rejectsOnly(issue, common, value))).map(issueOf)
  return strict && typeof value === 'object' && value !== null ? undeclared(value, result.value) : []
}

function placeOf({ path, expected }: ValidationIssue): string {
  const place = path.length === 0 ? 'the attributes' : quotedName(path.join('.'))
  const type = expected === undefined ? undefined : TYPES[expected]
  return type === undefined ? place : `${place} (must be ${type})`
}

/** Returns `true` if an issue says only that common attributes are not declared, in the form of zod, valibot, or arktype. */
function rejectsOnly(issue: StandardSchemaV1.Issue, common: Attributes, own: object): boolean {
  const path = issuePath(issue.path)
  const isUndeclared = path.length === 1 && ['never', 'removed'].includes(String(memberOf(issue, 'expected')))
  const keys = isUndeclared ? path : path.length === 0 ? memberOf(issue, 'keys') : undefined
  if (!Array.isArray(keys) || keys.length === 0) return false
  return keys.every((key) => Object.hasOwn(common, key) && !Object.hasOwn(own, key))
}

/** Copies an issue. zod, valibot, and arktype name the expected type: `number`, `Object`, `a string`. */
function issueOf(issue: StandardSchemaV1.Issue): ValidationIssue {
  const path = issuePath(issue.path)
  const stated: unknown = memberOf(issue, 'expected')
  const expected = typeof stated === 'string' ? stated.replace(/^an? /, '').toLowerCase() : ''
  return Object.hasOwn(TYPES, expected) ? { path, expected } : { path }
}

function issuePath(
  path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined,
): (string | number)[] {
  return Array.from(path ?? [], (step) => {
    const key = typeof step === 'object' ? step.key : step
    return typeof key === 'number' ? key : String(key)
  })
}

/** Returns the top-level keys that are missing in the validated output. Keys whose value is `undefined` are never sent. */
function undeclared(input: object, output: unknown): ValidationIssue[] {
  const declared = typeof output === 'object' && output !== null ? output : {}
  return Object.keys(input)
    .filter((key) => !Object.hasOwn(declared, key) && (input as Record<string, unknown>)[key] !== undefined)
    .map((key) => ({ path: [key] }))
}

/** Returns the attributes of an event with the common ones that it does not have itself. They come last. */
function withCommon(attributes: object, common: Attributes): object {
  const own: Attributes = { ...attributes }
  const missing = Object.entries(common).filter(([key]) => !Object.hasOwn(own, key) || own[key] === undefined)
  return { ...own, ...Object.fromEntries(missing) }
}
