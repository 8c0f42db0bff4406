/** The bytes of a response body that have arrived so far, in one buffer. */
export class ReceivedBody {
  #buffer = Buffer.allocUnsafe(16_384)
  #length = 0

  get length(): number {
    return this.#length
  }

  append(chunk: Buffer): void {
    const length = this.#length + chunk.length
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafe(Math.max(length, 2 * this.#buffer.length))
      this.#buffer.copy(larger, 0, 0, this.#length)
      this.#buffer = larger
    }
    chunk.copy(this.#buffer, this.#length)
    this.#length = length
  }

  /** Returns the index of a byte at or after `from`, or -1. */
  indexOf(byte: number, from: number): number {
    // Searching the unused rest of the buffer with every chunk would take quadratic time.
    return this.#buffer.subarray(0, this.#length).indexOf(byte, from)
  }

  /** Returns the bytes from `from` to `to` as UTF-8 text. */
  text(from = 0, to: number = this.#length): string {
    return this.#buffer.toString('utf8', from, Math.min(to, this.#length))
  }
}
