import { requestOrigin } from '../../../src/base/http/request-origin.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('forwarded headers', () => {
  const HOSTILE: Readonly<Record<string, (size: number) => string>> = {
    spaces: (size) => `proto=${' '.repeat(size)}x`,
    'spaces within a value': (size) => `proto=a${' '.repeat(size)}b`,
    'spaces before an equals sign': (size) => `proto${' '.repeat(size)}x`,
    'leading spaces': (size) => `${' '.repeat(size)}"`,
    'quoted spaces': (size) => `proto="${' '.repeat(size)}`,
    'quotation marks': (size) => `host=${'"'.repeat(size)}`,
    backslashes: (size) => `host="${'\\'.repeat(size)}`,
    'escaped quotation marks': (size) => `host="${'\\"'.repeat(size / 2)}`,
    semicolons: (size) => ';'.repeat(size),
    pairs: (size) => 'a=b;'.repeat(size / 4),
    'different pairs': (size) => Array.from({ length: size / 8 }, (_, index) => `a${index}=b`).join(';'),
    elements: (size) => 'host=a,'.repeat(size / 7),
    'equals signs': (size) => `host${'='.repeat(size)}`,
    names: (size) => 'proto'.repeat(size / 5),
    tabs: (size) => `host=a${'\t'.repeat(size)};`,
  }
  for (const [what, make] of Object.entries(HOSTILE)) {
    it(`forwarded headers with many ${what} are read in linear time`, () => {
      for (const name of ['forwarded', 'x-forwarded-host', 'x-forwarded-proto']) {
        expectLinearGrowth((size) => {
          const value = make(size)
          const header = (asked: string) => (asked === name ? value : undefined)
          requestOrigin({ protocol: 'http', host: 'app', header }, true)
        }, 50_000)
      }
    })
  }

  it('forwarded headers with a long host are read in linear time', () =>
    expectLinearGrowth((size) => {
      const header = (name: string) => (name === 'x-forwarded-host' ? `xn--${'a'.repeat(size)}` : undefined)
      requestOrigin({ protocol: 'http', host: 'app', header }, true)
    }, 50_000))
})
