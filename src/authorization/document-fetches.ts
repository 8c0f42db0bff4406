import { LRUCache } from 'lru-cache'
import { createSafeFetch, type SafeFetchSettings } from './safe-fetch.ts'

/** The maximum number of documents that are fetched at the same time. */
const MAX_CONCURRENT_FETCHES = 20

/** The time for which a result is used again, also if it is a failure. */
const REUSED_MS = 30_000

/** The limits for what is kept. */
const MAX_DOCUMENTS = 1_000
const MAX_BYTES = 8_388_608

interface FetchedDocument {
  readonly status: number
  readonly headers: Headers
  readonly body: Uint8Array
}

type Result = FetchedDocument | { readonly failure: Error }

/**
 * Fetches metadata documents and key sets of clients, which strangers name. Each URL is fetched at most once in 30 s, so that
 * requests to this server do not become requests to another one.
 */
export class DocumentFetches {
  readonly #safeFetch: ReturnType<typeof createSafeFetch>
  readonly #recent = new LRUCache<string, Result>({
    max: MAX_DOCUMENTS,
    maxSize: MAX_BYTES,
    sizeCalculation: (result) => ('failure' in result ? 1 : result.body.byteLength + 1),
    ttl: REUSED_MS,
  })
  readonly #running = new Map<string, Promise<Result>>()

  constructor(settings: SafeFetchSettings) {
    this.#safeFetch = createSafeFetch(settings)
  }

  readonly fetch: (input: string | URL, init?: RequestInit) => Promise<Response> = async (input, init) => {
    const { href } = new URL(input)
    const result = this.#recent.get(href) ?? (await (this.#running.get(href) ?? this.#start(href, init)))
    if ('failure' in result) throw result.failure
    const { status, headers, body } = result
    const isEmpty = status === 204 || status === 304
    return new Response(isEmpty ? null : Buffer.from(body), { status, headers })
  }

  async #start(href: string, init: RequestInit | undefined): Promise<Result> {
    if (this.#running.size >= MAX_CONCURRENT_FETCHES) throw new Error('too many documents are being fetched')
    const running = this.#load(href, init).then((result) => {
      this.#recent.set(href, result)
      this.#running.delete(href)
      return result
    })
    this.#running.set(href, running)
    return await running
  }

  async #load(href: string, init: RequestInit | undefined): Promise<Result> {
    try {
      const response = await this.#safeFetch(href, init)
      const body = new Uint8Array(await response.arrayBuffer())
      return { status: response.status, headers: response.headers, body }
    } catch (error) {
      return { failure: error instanceof Error ? error : new Error('the document could not be fetched') }
    }
  }
}
