import type { Examination } from './examination.ts'
import type { Finding } from './finding.ts'

/** One check of a server. */
export interface Check {
  /** `group.name`. Never changes once published, because CI configurations use it. */
  readonly id: string
  /** A statement that is true if the check succeeds. */
  readonly title: string
  /** IDs of checks that must succeed first. Otherwise this check would only repeat their problem. */
  readonly needs?: readonly string[]
  /** @throws {InconclusiveError} if the check is not possible, {NoResponseError} if the server does not respond */
  run(examination: Examination): Promise<Finding>
}
