import type { Examination } from './examination.ts'
import type { Finding } from './finding.ts'

/** Runs a check. @throws {InconclusiveError} if it is not possible, {NoResponseError} if the server does not respond */
export type CheckFunction = (examination: Examination) => Promise<Finding>

/** The functions of checks by ID. */
export type CheckFunctions = Readonly<Record<string, CheckFunction>>

/** One check of a server. */
export interface Check {
  /** `group.name`. Never changes once published, because CI configurations use it. */
  readonly id: string
  /** The heading in the report. */
  readonly group: string
  /** A statement that is true if the check succeeds. */
  readonly title: string
  /** IDs of checks that must succeed first. Otherwise this check would only repeat their problem. */
  readonly needs: readonly string[]
  readonly run: CheckFunction
}
