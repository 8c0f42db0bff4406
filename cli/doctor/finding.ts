/**
 * The result of a check.
 *
 * - `ok`: the server is correct.
 * - `warn`: the server works, but not for every client or not safely in every environment.
 * - `fail`: clients fail, or the server is vulnerable.
 * - `skip`: the check was not possible.
 */
export type Status = 'ok' | 'warn' | 'fail' | 'skip'

export interface Finding {
  readonly status: Status
  /** The observation that the status is based on. */
  readonly seen: string
  /** The suggested fix. Only for `warn` and `fail`. */
  readonly hint?: string
}

export const ok = (seen: string): Finding => ({ status: 'ok', seen })
export const warn = (seen: string, hint: string): Finding => ({ status: 'warn', seen, hint })
export const fail = (seen: string, hint: string): Finding => ({ status: 'fail', seen, hint })
export const skip = (why: string): Finding => ({ status: 'skip', seen: why })

const SEVERITY: Readonly<Record<Status, number>> = { skip: 0, ok: 1, warn: 2, fail: 3 }

/** Combines findings into one that has the worst status, and the texts of all findings with that status. */
export function worst(findings: readonly Finding[]): Finding {
  const severity = findings.reduce((most, { status }) => Math.max(most, SEVERITY[status]), 0)
  const selected = findings.filter(({ status }) => SEVERITY[status] === severity)
  const [first] = selected
  if (first === undefined) return skip('there was nothing to check')
  const seen = [...new Set(selected.map((finding) => finding.seen))].join('; ')
  const hints = [...new Set(selected.flatMap(({ hint }) => hint ?? []))]
  return { status: first.status, seen, ...(hints.length > 0 && { hint: hints.join('; ') }) }
}

/** Thrown by a check that is not possible. The message is the reason. */
export class InconclusiveError extends Error {
  override readonly name = 'InconclusiveError'
}
