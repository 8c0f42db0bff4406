import { randomUUID } from 'node:crypto'
import { cutText } from '../cut-text.ts'
import { boundedFetch } from '../http/bounded-fetch.ts'
import { eraseSecrets } from '../http/erase-secrets.ts'
import type { PolicyDecision } from '../mcp/router/authorize.ts'
import { isRecord } from '../options/value-kinds.ts'
import type { ResolvedAuthZenOptions } from './options.ts'

/** The maximum length of a reason that a client receives, in UTF-16 units. */
const MAX_REASON = 500

/** The minimum length of a header value that is searched for in reasons. Shorter ones occur in any text. */
const MIN_SECRET = 8

/** The minimum length of a part of a JWT that is searched for. Shorter parts of header values are often words. */
const MIN_PART = 16

/** The maximum number of parts of a value. A JWS has three, and a JWE has five. */
const MAX_PARTS = 8

/** A decision that could not be obtained. It denies the operation. */
export class DecisionPointError extends Error {
  override readonly name: string = 'DecisionPointError'
}

/** Sends requests to a decision point of AuthZEN 1.0. Every response that is not a valid decision is an error. */
export class DecisionPoint {
  readonly #options: Omit<ResolvedAuthZenOptions, 'mapping'>

  constructor(options: Omit<ResolvedAuthZenOptions, 'mapping'>) {
    this.#options = options
  }

  /** @param body an Access Evaluation request, as JSON */
  async evaluate(body: string): Promise<PolicyDecision> {
    const { json, secrets } = await this.#post(this.#options.evaluationUrl, body)
    return decisionIn(json, secrets)
  }

  /**
   * @param body an Access Evaluations request, as JSON
   * @param count the number of its evaluations
   * @returns the decisions in the order of the request. Reading one throws if it is not a valid decision.
   */
  async evaluateAll(body: string, count: number): Promise<readonly (() => PolicyDecision)[]> {
    const { json, secrets } = await this.#post(this.#options.evaluationsUrl, body)
    const { evaluations } = isRecord(json) ? json : {}
    if (!Array.isArray(evaluations) || evaluations.length !== count)
      throw new DecisionPointError(
        `The decision point must respond with ${count} evaluations; received ${Array.isArray(evaluations) ? evaluations.length : 'none'}.`,
      )
    return evaluations.map((evaluation) => () => decisionIn(evaluation, secrets))
  }

  async #post(url: string, body: string): Promise<{ json: unknown; secrets: readonly string[] }> {
    const id = randomUUID()
    const headers = await this.#options.headers()
    const secrets = [...headers.values()].flatMap(secretsIn)
    headers.set('content-type', 'application/json')
    headers.set('accept', 'application/json')
    headers.set('x-request-id', id)
    const signal = AbortSignal.timeout(this.#options.timeoutMs)
    let response: Response
    try {
      response = await boundedFetch(url, { method: 'POST', headers, body, signal })
    } catch (error) {
      const reason = signal.aborted
        ? `no response within ${this.#options.timeoutMs} ms`
        : (error as Error).message
      throw new DecisionPointError(`The decision point is unavailable: ${reason} (request ${id}).`)
    }
    if (response.status !== 200)
      throw new DecisionPointError(
        `The decision point responded with status ${response.status} (request ${id}).`,
      )
    if (!isJson(response.headers.get('content-type')))
      throw new DecisionPointError(
        `The response of the decision point is not application/json (request ${id}).`,
      )
    const text = await response.text()
    try {
      return { json: JSON.parse(text), secrets }
    } catch {
      // The error of `JSON.parse` contains a part of the response.
      throw new DecisionPointError(`The response of the decision point is not JSON (request ${id}).`)
    }
  }
}

/** Returns a header value and its words, and the parts of a JWT. */
function secretsIn(header: string): string[] {
  return [header, ...header.split(' ').slice(1)]
    .filter(({ length }) => length >= MIN_SECRET)
    .flatMap((value) => [value, ...value.split('.', MAX_PARTS).filter(({ length }) => length >= MIN_PART)])
}

function isJson(contentType: string | null): boolean {
  return contentType?.split(';', 1)[0]?.trim().toLowerCase() === 'application/json'
}

/** @throws {DecisionPointError} if `value` is not a decision. */
function decisionIn(value: unknown, secrets: readonly string[]): PolicyDecision {
  const decision = isRecord(value) && Object.hasOwn(value, 'decision') ? value.decision : undefined
  if (typeof decision !== 'boolean')
    throw new DecisionPointError('The decision point must respond with a decision that is true or false.')
  if (decision) return true
  const { context } = value as { context?: unknown }
  const reason = isRecord(context) ? userReasonIn(context) : ''
  // A decision point, or a proxy, that repeats the request must not show the credentials of this server to clients.
  const start = eraseSecrets(reason, secrets)
  const line = reason.startsWith(start) ? oneLine(start) : ''
  return line === '' ? false : { deny: line }
}

/** Returns the reason for the user: a string, or the English or the first entry of an object of strings. `reason_admin` is not for users. */
function userReasonIn({ reason_user: reason }: Readonly<Record<string, unknown>>): string {
  if (typeof reason === 'string') return reason
  const texts = Object.entries(isRecord(reason) ? reason : {}).filter(
    (entry): entry is [string, string] => typeof entry[1] === 'string',
  )
  const [, text = ''] = texts.find(([key]) => key === 'en' || key.startsWith('en-')) ?? texts[0] ?? []
  return text
}

/** Shortens a reason, and removes control characters, line separators, and characters that change the direction of text. */
function oneLine(reason: string): string {
  return cutText(reason, MAX_REASON, '…')
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
    .trim()
}
