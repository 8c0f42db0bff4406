import { readBearerToken } from '../../../src/oauth/authorization-header.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('headers', () => {
  const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
    'spaces after the scheme': (size) => `Bearer ${' '.repeat(size)}`,
    'spaces within the token': (size) => `Bearer ${'a '.repeat(size)}`,
    'padding within the token': (size) => `Bearer ${'a='.repeat(size)}`,
    commas: (size) => `Bearer a${',Bearer a'.repeat(size)}`,
  }
  for (const [what, make] of Object.entries(HOSTILE)) {
    it(`an Authorization header with many ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => readBearerToken(make(size)), 20_000))
  }
})
