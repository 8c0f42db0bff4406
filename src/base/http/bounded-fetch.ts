import { BodyBytes } from './body-reader.ts'
import { describeNetworkFailure, networkFailureCodes } from './network-failure.ts'
import { untilAborted } from './until-aborted.ts'

/** The default for the maximum size of a body, for documents and responses of endpoints. Real ones are much smaller. */
const MAX_BYTES = 1_048_576

/** The maximum time of a request whose caller does not set one. */
const MAX_MS = 30_000

/** The statuses of responses without a body (Fetch Standard, "null body status"). */
const WITHOUT_BODY: readonly number[] = [204, 205, 304]

/** A response whose body has not been read. */
export interface OpenResponse {
  readonly status: number
  readonly headers: Headers
  readonly body: AsyncIterable<Uint8Array> | null
}

export interface FetchLimits {
  /** The maximum size of the body, in bytes. Defaults to 1 MiB. */
  readonly maxBytes?: number | undefined
  /** Sends the request, and ends it when `init.signal` aborts. Defaults to `fetch`. */
  readonly send?: (url: string, init: RequestInit & { readonly signal: AbortSignal }) => Promise<OpenResponse>
}

/** The error of a request or a response that the rules of the caller do not allow. Trying again does not help. */
export class FetchRefusal extends Error {}

/** The refusal of a response: its status is not valid, or it is too large. */
export class ResponseRefusal extends FetchRefusal {}

/** The error of a request that the network or the other side has failed. */
export class FetchFailure extends Error {
  /** The codes of the failure, such as `ECONNREFUSED`. */
  readonly codes: readonly string[]

  constructor(error: unknown) {
    super(`the request failed${describeNetworkFailure(error)}`)
    this.codes = networkFailureCodes(error)
  }
}

/**
 * Like `fetch`, with the rules for all requests of this package that are not telemetry:
 *
 * - It settles when `init.signal` aborts, or after 30 s without one, whatever the other side does. The time includes the body.
 * - It does not follow redirects, and fails for a body that is too large.
 * - It closes the connection, unless the whole response was read.
 * - Its errors name the code of a failure only, because errors of the network can contain parts of the response.
 *
 * The memory for the body depends on its size only, not on the size of the chunks that it comes in.
 */
export async function boundedFetch(
  url: string,
  init: RequestInit,
  { maxBytes = MAX_BYTES, send = fetch as NonNullable<FetchLimits['send']> }: FetchLimits = {},
): Promise<Response> {
  const limit = init.signal ?? AbortSignal.timeout(MAX_MS)
  limit.throwIfAborted()
  const ended = new AbortController()
  const exchange = async (): Promise<Response> => {
    const { status, headers, body } = await send(url, { ...init, redirect: 'manual', signal: ended.signal })
    if (status < 200 || status > 599) throw new ResponseRefusal('the status of the response is not valid')
    const bytes = body === null ? null : await readBounded(body, maxBytes)
    return new Response(WITHOUT_BODY.includes(status) ? null : bytes, { status, headers })
  }
  try {
    return await untilAborted(exchange(), limit)
  } catch (error) {
    limit.throwIfAborted()
    if (error instanceof FetchRefusal) throw error
    throw new FetchFailure(error)
  } finally {
    ended.abort()
  }
}

/** Reads a stream. @throws {ResponseRefusal} if it has more than `maxBytes` bytes. Throwing ends the stream. */
export async function readBounded(chunks: AsyncIterable<Uint8Array>, maxBytes: number) {
  const body = new BodyBytes(maxBytes)
  for await (const chunk of chunks)
    if (body.add(chunk) !== 'added')
      throw new ResponseRefusal(`the response is larger than ${maxBytes} bytes`)
  return body.whole as Buffer<ArrayBuffer>
}
