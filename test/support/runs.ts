/** The part of the runs that `npm test` makes. */
const FAST_PART = 1 / 5

/**
 * Returns how many random inputs a property gets, or how many items a test of a large amount uses: `count` if `FULL_RUNS`
 * is `1`, as in `npm run test:full`, and a fifth of it otherwise.
 */
export function runs(count: number): number {
  return process.env.FULL_RUNS === '1' ? count : Math.ceil(count * FAST_PART)
}
