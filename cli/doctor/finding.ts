/**
 * How a check came out. `ok`: as it should be. `warn`: it works, but not for everybody, or not safely everywhere.
 * `fail`: clients or attackers will notice. `skip`: nothing could be said.
 */
export type Status = 'ok' | 'warn' | 'fail' | 'skip'

export interface Finding {
  readonly status: Status
  /** What was seen. */
  readonly seen: string
  /** How to hint it; with `warn` and `fail` only. */
  readonly hint?: string
}

export const ok = (seen: string): Finding => ({ status: 'ok', seen })
export const warn = (seen: string, hint: string): Finding => ({ status: 'warn', seen, hint })
export const fail = (seen: string, hint: string): Finding => ({ status: 'fail', seen, hint })
export const skip = (why: string): Finding => ({ status: 'skip', seen: why })

const SEVERITY: Readonly<Record<Status, number>> = { skip: 0, ok: 1, warn: 2, fail: 3 }

/** Several findings as one: what is wrong with any of them, or else what was seen of all. */
export function worst(findings: readonly Finding[]): Finding {
  const severity = findings.reduce((most, { status }) => Math.max(most, SEVERITY[status]), 0)
  const gravest = findings.filter(({ status }) => SEVERITY[status] === severity)
  const [first] = gravest
  if (first === undefined) return skip('there was nothing to look at')
  const seen = [...new Set(gravest.map((finding) => finding.seen))].join('; ')
  const mends = [...new Set(gravest.flatMap(({ hint }) => hint ?? []))]
  return { status: first.status, seen, ...(mends.length > 0 && { hint: mends.join('; ') }) }
}

/** Thrown within a check that can say nothing. Its message is the reason. */
export class InconclusiveError extends Error {
  override readonly name = 'InconclusiveError'
}
