/** Loaded with `node --import`: sets the wall clock of the process ahead by `CLOCK_OFFSET_MS`, or back if it is negative. */
const offset = Number(process.env.CLOCK_OFFSET_MS ?? 0)
const TrueDate = Date

globalThis.Date = class extends TrueDate {
  constructor(...given: any[]) {
    if (given.length === 0) super(TrueDate.now() + offset)
    else super(...(given as [number]))
  }

  static override now(): number {
    return TrueDate.now() + offset
  }
} as DateConstructor
