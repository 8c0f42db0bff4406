import { stripVTControlCharacters } from 'node:util'

const MAX_BYTES = 8192
const MAX_LINES = 20

/** The end of the output of a process. Bounded in memory. */
export class LastLines {
  #bytes: Buffer = Buffer.alloc(0)

  add(chunk: Buffer): void {
    this.#bytes = Buffer.concat([this.#bytes, chunk]).subarray(-MAX_BYTES)
  }

  /** The port of an `EADDRINUSE`. */
  get portInUse(): string | undefined {
    return /:(\d{1,5})\b/.exec(/\bEADDRINUSE\b.{0,256}/.exec(this.#bytes.toString())?.[0] ?? '')?.[1]
  }

  /** Returns the last 20 lines of at most 8 KiB, without control characters; one sentence for a port that is in use. */
  toString(): string {
    const port = this.portInUse
    if (port !== undefined) return `Port ${port} is in use. Set PORT.`
    const text = stripVTControlCharacters(this.#bytes.toString())
    const lines = text
      .replaceAll(/(?![\t\n])[\p{Cc}\p{Cf}]/gu, '')
      .trimEnd()
      .split('\n')
    return lines.slice(-MAX_LINES).join('\n')
  }
}
