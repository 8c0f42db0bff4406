import type { ToolCall } from '../events/summary.ts'
import { byId, type PageElement, shape } from './browser.ts'
import { decades, durationText, quantile } from './durations.ts'

const WIDTH = 400
const HEIGHT = 120
/** The left edge of the bars. The durations are left of it. */
const LEFT = 52
const TOP = 6
const BOTTOM = HEIGHT - 6
/** The number of bars that fit in the chart: those of the latest calls that the server sends. */
const PLACES = 96
const STEP = (WIDTH - LEFT) / PLACES

/** A bar chart of the latest tool calls, newest on the right. The heights are logarithmic. */
export class Plot {
  readonly #drawing: PageElement = byId('plot')
  readonly #caption: PageElement = byId('plot-caption')
  /** The number of the newest call in the chart. */
  #drawn: number | undefined

  /** @param select called with the number of an event when its bar is clicked */
  constructor(select: (number: number) => void) {
    this.#drawing.addEventListener('click', ({ target }) => {
      const number = target.closest('[data-number]')?.dataset.number
      if (number !== undefined) select(Number(number))
    })
  }

  draw(calls: readonly ToolCall[]): void {
    const last = calls.at(-1)?.number
    if (last === this.#drawn) return
    this.#drawn = last
    this.#drawing.classList.toggle('drawn', last !== undefined)
    const { from, to } = decades(calls)
    const y = (ms: number): number => {
      const part = (Math.log10(Math.max(ms, 10 ** from)) - from) / (to - from)
      return BOTTOM - part * (BOTTOM - TOP)
    }
    const parts: PageElement[] = []
    for (let decade = from; decade <= to; decade++) {
      const at = y(10 ** decade)
      parts.push(shape('line', { x1: LEFT, x2: WIDTH, y1: at, y2: at, class: 'grid' }))
      const label = shape('text', { x: LEFT - 6, y: at + 3.5, class: 'label' })
      label.textContent = decade >= 3 ? `${10 ** (decade - 3)} s` : `${10 ** decade} ms`
      parts.push(label)
    }
    calls.forEach((call, index) => {
      const x = WIDTH - (calls.length - index) * STEP
      parts.push(barOf(call, x, y(call.ms)))
    })
    this.#drawing.replaceChildren(...parts)
    const text = captionOf(calls)
    this.#caption.textContent = text
    this.#drawing.setAttribute('aria-label', text)
  }
}

function barOf(call: ToolCall, x: number, top: number): PageElement {
  const height = Math.max(2, BOTTOM - top)
  const bar = shape('rect', {
    x,
    y: BOTTOM - height,
    width: STEP * 0.76,
    height,
    rx: 1,
    class: call.failed ? 'bar bad' : 'bar',
    'data-number': call.number,
  })
  const tip = shape('title', {})
  tip.textContent = `${call.tool} ${call.failed ? 'failed after' : 'took'} ${durationText(call.ms)}`
  bar.append(tip)
  return bar
}

function captionOf(calls: readonly ToolCall[]): string {
  const [median, high] = [quantile(calls, 0.5), quantile(calls, 0.95)]
  if (median === undefined || high === undefined) return 'No tool calls yet.'
  const which = calls.length === 1 ? 'One call' : `Latest ${calls.length} calls`
  const failed = calls.filter((call) => call.failed).length
  const failures = failed === 0 ? '' : `, ${failed} failed`
  return `${which}: median ${durationText(median)}, 95 % within ${durationText(high)}${failures}.`
}
