import type { BodyLimits } from '../../http/body-reader.ts'
import type { ParsedMessages } from './json-rpc.ts'
import type { McpRequest } from './mcp-request.ts'
import { receiveMessages } from './receive-messages.ts'

/** The length of a body that is always read. A connection takes about as much memory. */
const SMALL_BYTES = 65_536

/** The memory for all larger bodies, and bodies of unknown length, that are read at the same time. */
const TOTAL_BYTES = 64 * 1024 * 1024

/**
 * Reads the bodies of requests without a valid token. Their clients could otherwise fill the memory with many bodies that
 * are each within the limits.
 */
export class RefusedBodies {
  readonly #limits: BodyLimits
  #reservedBytes = 0

  constructor(limits: BodyLimits) {
    this.#limits = limits
  }

  /** Returns the messages in the body; `undefined` if it cannot be read now, because too many others are read. */
  async receive(request: McpRequest): Promise<ParsedMessages | undefined> {
    const { maxBytes, timeoutMs } = this.#limits
    const length = request.header('content-length')
    const bytes = Math.min(length === undefined ? maxBytes : Number(length) || 0, maxBytes + 1)
    // The length is a limit, because a web-standard request may have a longer body. A body parser may have decompressed it.
    const isLimit = request.header('content-encoding') === undefined
    if (bytes <= SMALL_BYTES)
      return await receiveMessages(request, {
        maxBytes: isLimit ? Math.min(bytes, maxBytes) : maxBytes,
        timeoutMs,
      })
    if (this.#reservedBytes > 0 && this.#reservedBytes + bytes > TOTAL_BYTES) return undefined
    this.#reservedBytes += bytes
    try {
      return await receiveMessages(request, this.#limits)
    } finally {
      this.#reservedBytes -= bytes
    }
  }
}
