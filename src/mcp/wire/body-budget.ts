import type { BodyLimits } from '../../base/http/body-reader.ts'
import { CONSUMED, jsonRpcError, type ParsedMessages, parseMessages } from './json-rpc.ts'
import type { McpRequest } from './mcp-request.ts'

/** The memory that each body may take, which is not counted: that of about 64 KiB of text. A connection takes about as much. */
const FREE_BYTES = 163_840

/** The memory for all larger bodies of one owner that are read or served at the same time. */
const TOTAL_BYTES = 64 * 1024 * 1024

/** The most memory of a single body, as a multiple of the maximum size of its text. */
const MAX_RATIO = 16

/**
 * Reads the bodies of requests, and reserves the memory that they take: while a body arrives, the size of its buffer, and then
 * the estimated size of its messages until they are served. An owner could otherwise fill the memory with many bodies that are
 * each within the limits.
 */
export class BodyBudget {
  readonly #limits: BodyLimits
  /** The most memory of a single body. */
  readonly #maxMemory: number
  /** By owner. An owner without reserved memory has no entry. */
  readonly #reserved = new Map<string, number>()
  #hasWarned = false

  constructor(limits: BodyLimits) {
    this.#limits = limits
    this.#maxMemory = limits.maxBytes * MAX_RATIO
  }

  /**
   * Returns the messages in the body; `undefined` if it cannot be read now, because the owner's budget is used up.
   * @param owner returns the owner. It is called only for large bodies.
   */
  receive(request: McpRequest, owner: () => string): Promise<ParsedMessages | undefined> {
    return this.#receive(request, this.#limits, owner, Math.max(TOTAL_BYTES, this.#maxMemory))
  }

  /**
   * Does the same for a request without a valid token. All of them share one budget, and no more than the announced length is
   * read.
   */
  receiveUnverified(request: McpRequest): Promise<ParsedMessages | undefined> {
    const { maxBytes, timeoutMs } = this.#limits
    const length = request.header('content-length')
    // A web-standard request may have a longer body. A body parser may have decompressed it.
    const isLimit = length !== undefined && request.header('content-encoding') === undefined
    const limits = { maxBytes: isLimit ? Math.min(Number(length) || 0, maxBytes) : maxBytes, timeoutMs }
    return this.#receive(request, limits, UNVERIFIED, TOTAL_BYTES)
  }

  async #receive(
    request: McpRequest,
    limits: BodyLimits,
    owner: () => string,
    totalBytes: number,
  ): Promise<ParsedMessages | undefined> {
    if (!isJsonContentType(request.header('content-type') ?? null)) return { response: NOT_JSON }
    let reserved = 0
    let isBusy = false
    const resize = (needed: number): 'too-large' | 'busy' | undefined => {
      const bytes = needed <= FREE_BYTES ? 0 : needed
      if (bytes > this.#maxMemory) return 'too-large'
      if (bytes === 0 && reserved === 0) return undefined
      const others = (this.#reserved.get(owner()) ?? 0) - reserved
      // A body that is alone may take more than the budget.
      isBusy = bytes > 0 && others > 0 && others + bytes > totalBytes
      if (isBusy) return 'busy'
      reserved = bytes
      if (others + bytes === 0) this.#reserved.delete(owner())
      else this.#reserved.set(owner(), others + bytes)
      return undefined
    }
    const memory = { resize }
    const reading = request.readBody(limits, memory)
    const read = reading instanceof Promise ? await reading : reading
    if (read.kind === 'consumed' && !request.disconnected && !this.#hasWarned) {
      this.#hasWarned = true
      console.error(`mcp-gatekit: ${CONSUMED}`)
    }
    const parsed = parseMessages(read, request.header('mcp-protocol-version'), request, memory)
    if ('response' in parsed) {
      const wasBusy = isBusy
      resize(0)
      return wasBusy ? undefined : parsed
    }
    return reserved === 0 ? parsed : { ...parsed, release: () => void resize(0) }
  }
}

const NOT_JSON = jsonRpcError(415, -32_000, 'Unsupported Media Type: Content-Type must be application/json')

/** The owner of all bodies without a valid token. */
const UNVERIFIED = (): string => ''

/** One or more parameters of a media type (RFC 9110 section 5.6.6). */
const PARAMETERS =
  /^(?:; *[\w!#$%&'*+.^`|~-]+ *= *(?:"(?:[\v !#-[\]-~\x80-\xff]|\\[\v -\xff])*"|[\w!#$%&'*+.^`|~-]+) *)+$/

/**
 * Returns `true` if a `Content-Type` names `application/json`, as the SDK reads it: with any parameters, invalid ones too. If they
 * are invalid, a comma means that there may be two types.
 */
export function isJsonContentType(header: string | null): boolean {
  if (header === 'application/json') return true
  const [, type = '', parameters = ''] = /^([^;]*)(.*)$/s.exec(header ?? '') ?? []
  if (type.trim().toLowerCase() !== 'application/json') return false
  return !parameters.includes(',') || PARAMETERS.test(parameters)
}
