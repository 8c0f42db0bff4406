import type { Output } from './cli-context.ts'

const FRAMES = '⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏'
const INTERVAL_MS = 80
const CLEAR_LINE = '\r\x1b[2K'

/** A line on a terminal that shows the current step. Writes nothing if the output is not a terminal. */
export class Spinner {
  readonly #output: Output | undefined
  #timer: NodeJS.Timeout | undefined
  #frame = 0
  #text = ''

  /** @param output `undefined` to show nothing */
  constructor(output: Output | undefined) {
    this.#output = output?.isTTY === true ? output : undefined
  }

  show(text: string): void {
    if (this.#output === undefined) return
    this.#text = text
    this.#timer ??= setInterval(() => this.#draw(), INTERVAL_MS).unref()
    this.#draw()
  }

  /** Removes the line. */
  clear(): void {
    if (this.#timer === undefined) return
    clearInterval(this.#timer)
    this.#timer = undefined
    this.#output?.write(CLEAR_LINE)
  }

  #draw(): void {
    this.#frame = (this.#frame + 1) % FRAMES.length
    this.#output?.write(`${CLEAR_LINE}${FRAMES[this.#frame]} ${this.#text}`)
  }
}
