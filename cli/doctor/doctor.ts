import { counted } from '../../src/base/options/counted.ts'
import { VERSION } from '../../src/base/version.ts'
import { noResponse } from './checks/server.ts'
import { CHECKS, type Check } from './checks.ts'
import { Examination, type ExaminationOptions } from './examination.ts'
import { type Finding, fail, fixFor, InconclusiveError, type Status, skip } from './finding.ts'
import { NoResponseError } from './http-exchange.ts'
import { printableLine, quote } from './quote.ts'

/** The result of one check. */
export interface CheckReport extends Finding {
  readonly id: string
  readonly group: string
  readonly title: string
  readonly durationMs: number
}

/** The report that `--json` prints. Members can be added. If the meaning of a member changes, `schema` increases. */
export interface DoctorReport {
  readonly schema: 1
  readonly tool: 'mcp-gatekit doctor'
  readonly version: string
  /** The URL without its query, which can contain a key. */
  readonly url: string
  /** ISO 8601, UTC. */
  readonly startedAt: string
  readonly durationMs: number
  /** The number of HTTP requests to the server and its authorization servers, without those of `--login`. */
  readonly requests: number
  /** The worst status of all checks. */
  readonly verdict: 'ok' | 'warn' | 'fail'
  readonly summary: Readonly<Record<Status, number>>
  /** All checks, in the order in which they ran. */
  readonly checks: readonly CheckReport[]
}

/** Returns the numbers of a summary with their nouns. */
export function countsOf({ ok, warn, fail, skip }: DoctorReport['summary']): readonly string[] {
  return [`${ok} passed`, counted(warn, 'warning'), counted(fail, 'failure'), `${skip} skipped`]
}

/**
 * Runs every check on a server, one after the other. Nothing that the server does makes this throw.
 * @param begins receives the title of each check before it runs
 */
export async function examine(
  options: ExaminationOptions,
  begins: (title: string) => void,
): Promise<DoctorReport> {
  const startedAt = new Date()
  const started = performance.now()
  const examination = new Examination(options)
  const checks: CheckReport[] = []
  const statuses = new Map<string, Status>()
  // A finding can contain unquoted text of the server, such as a media type.
  const printed = (text: string): string => examination.secrets.erase(printableLine(text))
  for (const check of CHECKS) {
    const { id, group, title } = check
    begins(title)
    const began = performance.now()
    examination.slow.length = 0
    const found = await findingOf(check, examination, statuses)
    statuses.set(id, found.status)
    const observed = { ...found, seen: `${found.seen}${slowRemark(examination)}` }
    const { status, seen, hint } = options.ignore.includes(id) ? skip('ignored') : observed
    checks.push({
      id,
      group,
      title,
      status,
      seen: printed(seen),
      ...(hint !== undefined && { hint: printed(fixFor(seen) ?? hint) }),
      durationMs: Math.round(performance.now() - began),
    })
  }
  await examination.close()
  const count = (status: Status): number => checks.filter((check) => check.status === status).length
  const { origin, pathname, search } = options.url
  const summary = { ok: count('ok'), warn: count('warn'), fail: count('fail'), skip: count('skip') }
  return {
    schema: 1,
    tool: 'mcp-gatekit doctor',
    version: VERSION,
    url: examination.secrets.erase(`${origin}${pathname}${search === '' ? '' : '?…'}`),
    startedAt: startedAt.toISOString(),
    durationMs: Math.round(performance.now() - started),
    requests: examination.requests,
    verdict: summary.fail > 0 ? 'fail' : summary.warn > 0 ? 'warn' : 'ok',
    summary,
    checks,
  }
}

/** Returns a remark about the slowest response of a check, or an empty string. */
function slowRemark({ slow, url }: Examination): string {
  const [slowest] = slow.toSorted((one, other) => other.durationMs - one.durationMs)
  if (slowest === undefined) return ''
  const { outgoing, durationMs } = slowest
  const server = outgoing.url.origin === url.origin ? 'the server' : quote(outgoing.url.host)
  return `; slow: ${server} took ${(durationMs / 1000).toFixed(1)} s to respond to ${outgoing.method}`
}

async function findingOf(
  check: Check,
  examination: Examination,
  statuses: ReadonlyMap<string, Status>,
): Promise<Finding> {
  const missing = check.needs.find((id) => ['fail', 'skip'].includes(statuses.get(id) ?? 'skip'))
  if (missing !== undefined) return skip(`see ${missing}`)
  try {
    return await check.run(examination)
  } catch (error) {
    if (error instanceof InconclusiveError) return skip(error.message)
    if (error instanceof NoResponseError)
      return error.kind === 'certificate' ? skip('see server.tls') : noResponse(error)
    // A bug in doctor. The message of the error can contain a secret, so only its name is printed.
    return fail(
      `internal error in this check: ${(error as Error).name}`,
      'report this as a bug of mcp-gatekit, together with the response of the server',
    )
  }
}
