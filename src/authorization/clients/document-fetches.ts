import { LRUCache } from 'lru-cache'
import { FetchRefusal } from '../../base/http/bounded-fetch.ts'
import { createSafeFetch, type SafeFetch, type SafeFetchSettings } from '../../base/http/safe-fetch.ts'
import { isRecord } from '../../base/options/value-kinds.ts'
import { tryOrUndefined } from '../../base/try-or-undefined.ts'
import { TemporarilyUnavailableError } from '../unavailable.ts'

/** The maximum number of documents that are fetched at the same time, in all and from one host. */
const MAX_FETCHES = 20
const MAX_FETCHES_PER_HOST = 4

/** The time for which a result is used without a further fetch, and the shorter time for an outage. */
const FRESH_MS = 30_000
const FRESH_OUTAGE_MS = 5_000

/** The time for which a document is used after it was fetched while it cannot be fetched again. */
const LAST_GOOD_MS = 86_400_000

/** The limits for what is kept. */
const MAX_RESULTS = 1_000
const MAX_BYTES = 8_388_608

/** The estimated size of a result without its URL and its body, in bytes. */
const RESULT_BYTES = 512

interface FetchedDocument {
  readonly status: number
  readonly headers: Headers
  readonly body: Buffer<ArrayBuffer>
  /** The time until which it may be used during an outage. */
  readonly goodUntilMs: number
}

/** The outcome of a fetch, and the time until which the next one waits. */
interface Result {
  readonly outcome: FetchedDocument | Error
  readonly freshUntilMs: number
}

/**
 * Fetches metadata documents and key sets of clients, which strangers name. Each URL is fetched at most once in 30 s, so that
 * requests to this server do not become requests to another one. During an outage, it is fetched at most once in 5 s, and the
 * last good document is used.
 */
export class DocumentFetches {
  readonly #safeFetch: SafeFetch
  readonly #now: () => number
  readonly #results = new LRUCache<string, Result>({
    max: MAX_RESULTS,
    maxSize: MAX_BYTES,
    sizeCalculation: ({ outcome }, href) =>
      RESULT_BYTES + 2 * href.length + ('body' in outcome ? outcome.body.byteLength : 0),
  })
  readonly #running = new Map<string, Promise<FetchedDocument | Error>>()

  /** @param now returns a monotonic time in milliseconds */
  constructor(settings: SafeFetchSettings, now: () => number = () => performance.now()) {
    this.#safeFetch = createSafeFetch(settings)
    this.#now = now
  }

  /**
   * Returns a document, or the last good one.
   * @throws {FetchRefusal} if the URL is not allowed, or the document is too large.
   * @throws {TemporarilyUnavailableError} if the document cannot be fetched.
   */
  readonly fetch: (input: string | URL) => Promise<Response> = async (input) => {
    const { href, hostname } = new URL(input)
    const result = this.#results.get(href)
    const isFresh = result !== undefined && this.#now() < result.freshUntilMs
    const outcome = isFresh ? result.outcome : await (this.#running.get(href) ?? this.#start(href, hostname))
    if (outcome instanceof Error) throw outcome
    const { status, headers, body } = outcome
    return new Response(status === 204 || status === 205 || status === 304 ? null : body, { status, headers })
  }

  #start(href: string, hostname: string): Promise<FetchedDocument | Error> | FetchedDocument | Error {
    const { size } = this.#running
    const atHost = [...this.#running.keys()].filter((running) => new URL(running).hostname === hostname)
    if (size >= MAX_FETCHES || atHost.length >= MAX_FETCHES_PER_HOST) return this.#lastGood(href)
    const running = this.#load(href).finally(() => this.#running.delete(href))
    this.#running.set(href, running)
    return running
  }

  /** Never rejects, and settles within the time limit of the request. */
  async #load(href: string): Promise<FetchedDocument | Error> {
    const fetched = await this.#request(href)
    const outcome = fetched ?? this.#lastGood(href)
    const freshMs = fetched === undefined ? FRESH_OUTAGE_MS : FRESH_MS
    this.#results.set(href, { outcome, freshUntilMs: this.#now() + freshMs })
    return outcome
  }

  /** Returns `undefined` for an outage: an error of the network, a timeout, or a status that asks to try again. */
  async #request(href: string): Promise<FetchedDocument | FetchRefusal | undefined> {
    try {
      const response = await this.#safeFetch(href)
      const { status, headers } = response
      if (status >= 500 || status === 429 || status === 408) return undefined
      const body = Buffer.from(await response.arrayBuffer())
      const isGood = status === 200 && isRecord(tryOrUndefined(() => JSON.parse(body.toString())))
      return { status, headers, body, goodUntilMs: isGood ? this.#now() + LAST_GOOD_MS : 0 }
    } catch (error) {
      return error instanceof FetchRefusal ? error : undefined
    }
  }

  /** Returns the last good document without its lifetime, which is over. */
  #lastGood(href: string): FetchedDocument | Error {
    const last = this.#results.peek(href)?.outcome
    if (last === undefined || last instanceof Error || this.#now() >= last.goodUntilMs)
      return new TemporarilyUnavailableError('The metadata or the keys of the client could not be fetched')
    return { ...last, headers: new Headers({ 'content-type': 'application/json' }) }
  }
}
