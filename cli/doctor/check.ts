import type { Examination } from './examination.ts'
import type { Finding } from './finding.ts'

/** One question about a server. */
export interface Check {
  /** `group.name`; never changed once published, as CI configurations name it. */
  readonly id: string
  /** What holds when it is answered with yes. */
  readonly title: string
  /** Ids of checks without whose success this one would only repeat their complaint. */
  readonly needs?: readonly string[]
  /** @throws {InconclusiveError} when nothing can be said, {NoResponseError} when the server did not answer. */
  run(examination: Examination): Promise<Finding>
}
