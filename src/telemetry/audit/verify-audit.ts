import { isObject, isRecord } from '../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { telemetryOptions } from '../options.ts'
import {
  type AuditKey,
  auditKey,
  CanonicalForm,
  CHAIN,
  END,
  LOST,
  MAC,
  MAX_LINE,
  messageOf,
  SEQ,
} from './audit-line.ts'
import { linesOf } from './audit-lines.ts'

/** The maximum number of chains in an audit log. The id of each chain is kept, so that a chain cannot occur twice. */
const MAX_CHAINS = 100_000

const QUOTE = '"'
const BACKSLASH = '\\'

/** The result of `verifyAudit()`. */
export interface TelemetryAuditVerification {
  /** `true` if all chains are complete and unchanged. */
  readonly valid: boolean
  /** The number of verified events before the first break, without opening and closing lines. */
  readonly events: number
  /** The first break. It is missing if the log is valid. */
  readonly firstBreak?: {
    /** The sequence number of the first line that is missing, changed, or in the wrong place. */
    readonly seq: number
    /** The problem, in a sentence that contains nothing from the lines but numbers. */
    readonly reason: string
  }
}

/**
 * Verifies the lines that a transport of `withAudit` has written. A line that was changed, removed, added, repeated, or moved
 * is a break, and so is a missing opening or closing line. Lines of several chains, of several starts or nodes, may be mixed.
 *
 * Never throws because of a line. The time is linear in the length of the lines, and only one line is kept in memory.
 * @param lines the lines in the order of the file, each with one JSON object, as strings. Or the bytes of a file in pieces of any
 * size, such as a stream of `createReadStream` without an encoding. `node:readline` also splits lines at U+2028, which JSON
 * may contain, so do not use it.
 * @param secret the secret of `withAudit`.
 * @returns the number of events, and the first break.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if `lines` is not iterable, or if `secret` is shorter than 32
 * bytes. Errors of the iteration itself, such as a file that cannot be read, are thrown as they are.
 *
 * @example
 * ```ts
 * import { createReadStream } from 'node:fs'
 * import { verifyAudit } from 'mcp-gatekit/telemetry'
 *
 * const secret = process.env.AUDIT_SECRET ?? ''
 * const { valid, events, firstBreak } = await verifyAudit(createReadStream('audit.log'), secret)
 * console.log(valid ? `${events} events` : `break at ${firstBreak?.seq}: ${firstBreak?.reason}`)
 * ```
 * @see docs/guides/audit.md
 */
export async function verifyAudit(
  lines: Iterable<string | Uint8Array> | AsyncIterable<string | Uint8Array>,
  secret: string | Uint8Array,
): Promise<TelemetryAuditVerification> {
  if (!isObject(lines) || !(Symbol.iterator in lines || Symbol.asyncIterator in lines)) {
    throw telemetryOptions.invalidKind(
      'the lines of verifyAudit()',
      'must be an iterable or async iterable of lines',
      lines,
      'Pass an array of lines, or a stream of createReadStream.',
    )
  }
  const verifier = new AuditVerifier(auditKey('verifyAudit', 'the secret of verifyAudit()', secret))
  try {
    for await (const line of linesOf(lines, MAX_LINE)) verifier.add(line)
    verifier.end()
    return { valid: true, events: verifier.events }
  } catch (error) {
    if (!(error instanceof Break)) throw error
    const { seq, message: reason } = error
    return { valid: false, events: verifier.events, firstBreak: { seq, reason } }
  }
}

/** The first break of a log. */
class Break extends Error {
  readonly seq: number

  constructor(seq: number, reason: string) {
    super(reason)
    this.seq = seq
  }
}

/** Throws a break at a sequence number. */
type Fail = (seq: number, reason: string) => never

/** The end of a chain whose closing line has not come yet. */
interface OpenChain {
  readonly seq: number
  readonly mac: string
}

/** A line as JSON, and the members that the chain has added to it. */
interface ParsedLine {
  readonly canonical: string
  readonly chain: string
  readonly seq: number
  readonly mac: string
  readonly isEnd: boolean
  readonly lost: unknown
}

/** Verifies lines one after the other, until the first break. */
class AuditVerifier {
  /** The number of verified events. */
  events = 0
  readonly #key: AuditKey
  /** `undefined` for a chain with its closing line. */
  readonly #chains = new Map<string, OpenChain | undefined>()
  #lines = 0
  /** The sequence number after that of the latest verified line. */
  #next = 0

  constructor(key: AuditKey) {
    this.#key = key
  }

  /** Verifies a line. @throws {Break} */
  add(line: unknown): void {
    this.#lines++
    const fail: Fail = (seq, reason) => {
      throw new Break(seq, `line ${this.#lines}: ${reason}`)
    }
    const text = textOf(line, this.#lines === 1, (reason) => fail(this.#next, reason))
    if (text.trim() !== '') this.#verify(parse(text, this.#next, fail), fail)
  }

  /** Verifies the end of the log. @throws {Break} */
  end(): void {
    if (this.#chains.size === 0) throw new Break(0, 'the log is empty. The opening line is missing')
    for (const open of this.#chains.values()) {
      if (open !== undefined)
        throw new Break(
          open.seq,
          'the closing line of a chain is missing. The end of the log was removed, or the process is still running or was killed',
        )
    }
  }

  #verify({ canonical, chain, seq, mac, isEnd, lost }: ParsedLine, fail: Fail): void {
    const isKnown = this.#chains.has(chain)
    const open = this.#chains.get(chain)
    if (isKnown && open === undefined) fail(seq, 'the line comes after the closing line of its chain')
    const expected = open?.seq ?? 0
    if (!isKnown && seq !== expected) fail(expected, 'the opening line of the chain is missing')
    if (seq < expected) fail(seq, 'the line is repeated, or it is in the wrong place')
    if (seq > expected)
      fail(expected, `the line with the sequence number ${expected} is missing before ${seq}`)
    // The MACs of the MACs are compared, so that the time says nothing about the MACs.
    if (this.#key(mac) !== this.#key(this.#key(messageOf(open?.mac ?? '', canonical))))
      fail(seq, 'the MAC is wrong. The line was changed, or the secret is not the one of the log')
    if (lost !== undefined)
      fail(seq, `${Number(lost)} events were lost before this line. The process could not write them`)
    if (!isKnown && this.#chains.size >= MAX_CHAINS)
      fail(seq, `the log has more than ${MAX_CHAINS} chains. Verify its parts separately`)
    this.#chains.set(chain, isEnd ? undefined : { seq: seq + 1, mac })
    this.#next = seq + 1
    if (seq > 0 && !isEnd) this.events++
  }
}

const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** Returns a line as a string. The first one may begin with a byte order mark. */
function textOf(line: unknown, isFirst: boolean, fail: (reason: string) => never): string {
  if (typeof line !== 'string' && !(line instanceof Uint8Array)) return fail('the line is not a string')
  if (line.length > MAX_LINE) return fail(`the line is longer than ${MAX_LINE} characters`)
  const text =
    typeof line === 'string'
      ? line
      : (tryOrUndefined(() => decoder.decode(line)) ?? fail('the line is not valid UTF-8'))
  return isFirst && text.startsWith('\ufeff') ? text.slice(1) : text
}

function parse(text: string, next: number, fail: Fail): ParsedLine {
  let line: unknown
  try {
    line = JSON.parse(text)
  } catch {
    fail(next, 'the line is not valid JSON')
  }
  const attributes = isRecord(line) && Object.hasOwn(line, 'attributes') ? line.attributes : undefined
  if (!isRecord(line) || !isRecord(attributes))
    return fail(next, 'the line does not have the attributes of an audited event')
  const own = (name: string): unknown => (Object.hasOwn(attributes, name) ? attributes[name] : undefined)
  const [chain, seq, mac] = [own(CHAIN), own(SEQ), own(MAC)]
  if (typeof seq !== 'number' || !Number.isSafeInteger(seq) || seq < 0)
    return fail(next, `the line does not have a sequence number in ${SEQ}`)
  if (typeof chain !== 'string' || typeof mac !== 'string')
    return fail(seq, `the line does not have strings in ${CHAIN} and ${MAC}`)
  const form = new CanonicalForm()
  const canonical = tryOrUndefined(() => form.of(line)) ?? fail(seq, 'the line is nested too deeply')
  if (form.members !== membersIn(text))
    fail(seq, 'the line has the same member twice, which programs read in different ways')
  return { canonical, chain, seq, mac, isEnd: own(END) === true, lost: own(LOST) }
}

/** Counts the members of all objects of a JSON string. A parser keeps only one of those with the same name. */
function membersIn(json: string): number {
  let members = 0
  let inString = false
  for (let index = 0; index < json.length; index++) {
    const character = json[index]
    if (inString) {
      if (character === BACKSLASH) index++
      else if (character === QUOTE) inString = false
    } else if (character === QUOTE) inString = true
    else if (character === ':') members++
  }
  return members
}
