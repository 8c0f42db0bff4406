import type { KitMcpConfigError } from '../base/options/config-error.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type ReadBy, type RulesFor } from '../base/options/option-rules.ts'

const { invalidOption, readOptions, unusableOption, wholeNumber } = optionChecksOf('loadSkills')

/** The content of files, by path: `{ 'refunds/SKILL.md': '---\nname: refunds\n…' }`. */
export type SkillFileContents = Readonly<Record<string, string | Uint8Array>>

/** The options of `loadSkills`. */
export interface LoadSkillsOptions {
  /** The first segments of every URI: with `acme`, they begin with `skill://acme/`. Defaults to no prefix. */
  readonly prefix?: string | undefined
  /** The maximum number of skills. Defaults to 100. */
  readonly maxSkills?: number | undefined
  /** The maximum number of files and folders, including those outside of skills. Defaults to 2 000. */
  readonly maxFiles?: number | undefined
  /** The maximum size of a file in bytes. Defaults to 4 194 304 (4 MiB). */
  readonly maxFileBytes?: number | undefined
  /** The maximum size of all files together in bytes. They are kept in memory. Defaults to 33 554 432 (32 MiB). */
  readonly maxBytes?: number | undefined
}

/** Returns the error for files that cannot be published as they are. */
export function unusableSource(problem: string, fix?: string): KitMcpConfigError {
  return unusableOption('source', problem, fix)
}

const SEGMENT = /^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$/
const MAX_PREFIX_LENGTH = 256

const RULES = {
  prefix: prefixSegments,
  maxSkills: optional(wholeNumber(1), 100),
  maxFiles: optional(wholeNumber(1), 2_000),
  maxFileBytes: optional(wholeNumber(1), 4 * 1024 * 1024),
  maxBytes: optional(wholeNumber(1), 32 * 1024 * 1024),
} satisfies RulesFor<LoadSkillsOptions>

/** `LoadSkillsOptions`, checked and with their defaults. `prefix` is its segments. */
export type ResolvedLoadOptions = ReadBy<typeof RULES>

/** @throws {KitMcpConfigError} if an option is invalid. */
export function resolveLoadOptions(options: LoadSkillsOptions): ResolvedLoadOptions {
  const expected = 'must be an object such as { maxSkills: 10 }'
  return readOptions('loadSkills()', expected, options, RULES, 'the options of loadSkills()')
}

function prefixSegments(_option: string, prefix: unknown): readonly string[] {
  if (prefix === undefined) return []
  const segments = typeof prefix === 'string' && prefix.length <= MAX_PREFIX_LENGTH ? prefix.split('/') : []
  if (segments.length > 0 && segments.every((segment) => SEGMENT.test(segment))) return segments
  throw invalidOption(
    'prefix',
    `must be segments of letters, digits, '.', '_', and '-' that begin and end with a letter or a digit, such as 'acme/support'`,
    prefix,
  )
}
