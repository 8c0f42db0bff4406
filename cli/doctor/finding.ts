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

/** `false` and `undefined` are left out. */
type Findings = readonly (Finding | false | undefined)[]
export type Found = Findings | Findings[number]

/** Combines findings into one that has the worst status, and the texts of all findings with that status. */
export function worst(all: Findings): Finding {
  const findings = all.filter((one): one is Finding => typeof one === 'object')
  const severity = findings.reduce((most, { status }) => Math.max(most, SEVERITY[status]), 0)
  const selected = findings.filter(({ status }) => SEVERITY[status] === severity)
  const [first] = selected
  if (first === undefined) return skip('there was nothing to check')
  const seen = [...new Set(selected.map((finding) => finding.seen))].join('; ')
  const hints = [...new Set(selected.flatMap(({ hint }) => hint ?? []))]
  return { status: first.status, seen, ...(hints.length > 0 && { hint: hints.join('; ') }) }
}

/** Checks items one after the other. */
export async function findingsOfEach<Item>(
  items: Iterable<Item>,
  check: (item: Item) => Found | Promise<Found>,
): Promise<Findings> {
  const findings: Found[] = []
  for (const item of items) findings.push(await check(item))
  return findings.flat()
}

/** Thrown by a check that is not possible. The message is the reason. */
export class InconclusiveError extends Error {
  override readonly name = 'InconclusiveError'
}

/** @throws {InconclusiveError} with the reason, unless a check is possible */
export function onlyIf(isPossible: boolean, reason: string): asserts isPossible {
  if (!isPossible) throw new InconclusiveError(reason)
}

/** Returns a result, or `undefined` if it is not possible to get it. */
export async function ifPossible<T>(result: Promise<T>): Promise<T | undefined> {
  return await result.catch((error: unknown) => {
    if (error instanceof InconclusiveError) return undefined
    throw error
  })
}

/** The reason for which a client, or doctor itself, gives up signing in. */
export class Stop extends Error {
  override readonly name = 'Stop'
  readonly hint: string

  constructor(reason: string, hint: string) {
    super(reason)
    this.hint = hint
  }
}

/** The fixes for causes that servers state, each with their words. */
const FIXES: Readonly<Record<string, RegExp>> = {
  'allow the host of this URL, and the origins of its web pages, at the server (mcp-gatekit: allowedHosts, allowedOrigins), or let the proxy send the Host that the server expects':
    /\b(?:host|origin) (?:header )?(?:is )?not allowed\b|\binvalid (?:host|origin)\b/i,
  'let no middleware read the body before the MCP endpoint: move body parsers such as express.json() behind it, or pass the parsed body to the transport':
    /\bbody (?:was|has been|is) (?:already |not )?(?:read|valid JSON)\b|\bparse error\b|\bstream is not readable\b/i,
  'accept an initialize request without Mcp-Session-Id: pass the parsed body to the transport, and let proxies forward this header in both directions, to the same process':
    /\bmcp-session-id\b|\bsession id\b|\bnot initialized\b/i,
  'create a transport for each session, or for each request without sessions': /\balready initialized\b/i,
  'let every proxy forward the Accept header unchanged': /\bnot acceptable\b|\bmust accept\b/i,
}

/** Returns the fix for the words of a server in the text of a finding, or `undefined`. */
export function fixFor(seen: string): string | undefined {
  const words = seen.split(': "').slice(1).join()
  return Object.keys(FIXES).find((fix) => FIXES[fix]?.test(words))
}
