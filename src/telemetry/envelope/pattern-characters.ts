/** A set of characters: one bit for each ASCII character, and the bit 128 for all others. */
export type Characters = bigint

export const NONE: Characters = 0n
export const OTHER: Characters = 1n << 128n
export const ALL: Characters = (1n << 129n) - 1n
export const DIGITS: Characters = range(0x30, 0x39)
export const UPPER: Characters = range(0x41, 0x5a)
export const LOWER: Characters = range(0x61, 0x7a)
export const WORD: Characters = DIGITS | UPPER | LOWER | (1n << 0x5fn)
/** The characters before which `$` matches with the flag `m`. */
export const LINE_ENDS: Characters = (1n << 10n) | (1n << 13n) | OTHER
export const SPACE: Characters = range(9, 13) | (1n << 32n) | OTHER

export function range(first: number, last: number): Characters {
  let set = NONE
  for (let code = first; code <= Math.min(last, 127); code++) set |= 1n << BigInt(code)
  return last > 127 ? set | OTHER : set
}

export function characterOf(code: number): Characters {
  return code > 127 ? OTHER : 1n << BigInt(code)
}

/** Returns the code of the only character of a set. All characters beyond ASCII have one code. */
export function firstOf(set: Characters): number {
  return set.toString(2).length - 1
}
