import { VERSION } from '../../src/version.ts'
import type { Check } from './check.ts'
import { CHECK_GROUPS } from './checks.ts'
import { Examination, type ExaminationOptions } from './examination.ts'
import { type Finding, fail, InconclusiveError, type Status, skip } from './finding.ts'
import { NoResponseError } from './http-exchange.ts'
import { printableLine } from './quote.ts'
import { noResponse } from './reachability.ts'

/** How one check came out. */
export interface CheckReport extends Finding {
  readonly id: string
  readonly group: string
  readonly title: string
  readonly durationMs: number
}

/** What `--json` prints. Members may be added; a change of meaning raises `schema`. */
export interface DoctorReport {
  readonly schema: 1
  readonly tool: 'mcp-gatekit doctor'
  readonly version: string
  /** Without its query. */
  readonly url: string
  /** ISO 8601, UTC. */
  readonly startedAt: string
  readonly durationMs: number
  /** HTTP requests sent, to the server and to its authorization servers; those of `--login` are not counted. */
  readonly requests: number
  /** The worst that was found. */
  readonly verdict: 'ok' | 'warn' | 'fail'
  readonly summary: Readonly<Record<Status, number>>
  /** All of them, in the order in which they were made. */
  readonly checks: readonly CheckReport[]
}

/** Who watches the examination: the spinner. */
export interface Watcher {
  readonly begins: (title: string) => void
}

/** Looks at a server with every check, one after the other. Never throws for what the server does. */
export async function examine(options: ExaminationOptions, watcher: Watcher): Promise<DoctorReport> {
  const startedAt = new Date()
  const started = performance.now()
  const examination = new Examination(options)
  const checks: CheckReport[] = []
  const statuses = new Map<string, Status>()
  // A finding can contain text of the server that no check has quoted, such as a media type.
  const printed = (text: string): string => examination.secrets.erase(printableLine(text))
  for (const group of CHECK_GROUPS) {
    for (const check of group.checks) {
      watcher.begins(check.title)
      const began = performance.now()
      const found = await findingOf(check, examination, statuses)
      statuses.set(check.id, found.status)
      const finding = options.ignore.includes(check.id) ? skip('ignored') : found
      checks.push({
        id: check.id,
        group: group.title,
        title: check.title,
        status: finding.status,
        seen: printed(finding.seen),
        ...(finding.hint !== undefined && { hint: printed(finding.hint) }),
        durationMs: Math.round(performance.now() - began),
      })
    }
  }
  // What was opened is closed; whether that works is no question of this examination.
  for (const close of examination.closing.reverse()) await close().catch(() => undefined)
  const count = (status: Status): number => checks.filter((check) => check.status === status).length
  const summary = { ok: count('ok'), warn: count('warn'), fail: count('fail'), skip: count('skip') }
  return {
    schema: 1,
    tool: 'mcp-gatekit doctor',
    version: VERSION,
    url: examination.secrets.erase(withoutQuery(options.url)),
    startedAt: startedAt.toISOString(),
    durationMs: Math.round(performance.now() - started),
    requests: examination.requests,
    verdict: summary.fail > 0 ? 'fail' : summary.warn > 0 ? 'warn' : 'ok',
    summary,
    checks,
  }
}

/** A query may hold a key. */
function withoutQuery({ origin, pathname, search }: URL): string {
  return `${origin}${pathname}${search === '' ? '' : '?…'}`
}

async function findingOf(
  check: Check,
  examination: Examination,
  statuses: ReadonlyMap<string, Status>,
): Promise<Finding> {
  const missing = check.needs?.find((id) => ['fail', 'skip'].includes(statuses.get(id) ?? 'skip'))
  if (missing !== undefined) return skip(`see ${missing}`)
  try {
    return await check.run(examination)
  } catch (error) {
    if (error instanceof InconclusiveError) return skip(error.message)
    if (error instanceof NoResponseError)
      return error.kind === 'certificate' ? skip('see server.tls') : noResponse(error)
    // A mistake of the doctor's. What an error says may quote anything, so only its kind is told.
    return fail(
      `this check itself failed: ${(error as Error).name}`,
      'report it, with what the server answers',
    )
  }
}
