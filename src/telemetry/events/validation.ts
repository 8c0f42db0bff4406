import { quotedName } from '../../options/describe-value.ts'
import { KitTelemetryError } from '../errors.ts'
import { telemetryOptions, withDefaults } from '../options.ts'
import type { TelemetryEventSchema } from './schema.ts'

const { checkBoolean, checkOneOf, copyOptions } = telemetryOptions

/** When and how strictly events are checked. */
export interface TelemetryValidationOptions {
  /**
   * `development` (the default): unless `NODE_ENV` was `production` when the manager was built; `always`; or `none`.
   */
  readonly mode?: 'development' | 'always' | 'none' | undefined
  /** Whether an attribute that the schema does not declare fails. Default false. */
  readonly strict?: boolean | undefined
}

/** Validation options with every default filled in. */
export interface ResolvedValidationOptions {
  /** When events are checked. */
  readonly mode: 'development' | 'always' | 'none'
  /** Whether an attribute that the schema does not declare fails. */
  readonly strict: boolean
}

const DEFAULTS: ResolvedValidationOptions = Object.freeze({ mode: 'development', strict: false })

/** Copies and checks options. @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` */
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

/** Whether a mode checks events in this process. */
export function isValidationOn(mode: ResolvedValidationOptions['mode']): boolean {
  return mode === 'always' || (mode === 'development' && process.env.NODE_ENV !== 'production')
}

/** Where in the attributes a failure lies. Neither the value nor the schema library's text is told: it may quote the value. */
interface ValidationIssue {
  readonly path: readonly (string | number)[]
}

/** How many issues of an event are reported. */
const MAX_ISSUES = 20

/** How many of them the message names. */
const MAX_NAMED = 5

/**
 * Why `attributes` do not fit a schema, if so: `TELEMETRY_SCHEMA_VALIDATION_FAILED`, whose `details.issues` is
 * `[{ path: [key, …] }]`. An event without attributes passes when its schema takes `{}` or `undefined`.
 */
export function attributesError(
  event: string,
  schema: TelemetryEventSchema,
  attributes: unknown,
  strict: boolean,
): KitTelemetryError | undefined {
  let issues = schemaIssues(schema, attributes ?? {}, strict)
  if (issues.length > 0 && attributes === undefined && schemaIssues(schema, undefined, false).length === 0)
    issues = []
  if (issues.length === 0) return undefined
  const more =
    issues.length > MAX_NAMED ? `, and ${(issues.length - MAX_NAMED).toLocaleString('en-US')} more` : ''
  const where = issues
    .slice(0, MAX_NAMED)
    .map(({ path }) => (path.length === 0 ? 'the attributes' : quotedName(path.join('.'))))
    .join(', ')
  return new KitTelemetryError(
    'TELEMETRY_SCHEMA_VALIDATION_FAILED',
    `the attributes of event ${quotedName(event)} do not fit its schema at ${where}${more}`,
    { details: { issues: issues.slice(0, MAX_ISSUES) } },
  )
}

function schemaIssues(schema: TelemetryEventSchema, value: unknown, strict: boolean): ValidationIssue[] {
  try {
    const result = schema['~standard'].validate(value)
    if (result instanceof Promise || typeof (result as { then?: unknown }).then === 'function') {
      Promise.resolve(result).then(undefined, () => {})
      return [{ path: [] }]
    }
    const { issues } = result
    if (issues)
      return issues.length === 0 ? [{ path: [] }] : issues.map(({ path }) => ({ path: issuePath(path) }))
    return strict && typeof value === 'object' && value !== null ? undeclared(value, result.value) : []
  } catch {
    return [{ path: [] }]
  }
}

function issuePath(
  path: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined,
): (string | number)[] {
  return Array.from(path ?? [], (step) => {
    const key = typeof step === 'object' ? step.key : step
    return typeof key === 'number' ? key : String(key)
  })
}

/** The top-level keys that validation did not hand back. One whose value is `undefined` is never sent, so it may stay. */
function undeclared(given: object, output: unknown): ValidationIssue[] {
  const declared = typeof output === 'object' && output !== null ? output : {}
  return Object.keys(given)
    .filter((key) => !Object.hasOwn(declared, key) && (given as Record<string, unknown>)[key] !== undefined)
    .map((key) => ({ path: [key] }))
}
