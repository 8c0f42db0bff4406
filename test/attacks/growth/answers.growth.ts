import { retryAfterMs } from '../../../src/retry-after.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('answers of targets', () => {
  const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
    digits: (size) => '9'.repeat(size),
    spaces: (size) => ' '.repeat(size),
    'spaces between digits': (size) => `1${' '.repeat(size)}1`,
    dots: (size) => '1.'.repeat(size),
    dates: (size) => 'Thu Mar  5 06:07:08 2026 '.repeat(size / 20),
  }
  for (const [what, make] of Object.entries(HOSTILE)) {
    it(`a Retry-After header with many ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => retryAfterMs({ retryAfter: make(size), date: make(size) }), 40_000))
  }
})
