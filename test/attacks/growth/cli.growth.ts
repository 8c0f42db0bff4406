import { parseChallenges } from '../../../cli/doctor/challenges.ts'
import { checkTools } from '../../../cli/doctor/checks/tools.ts'
import { EventReader } from '../../../cli/doctor/http-exchange.ts'
import { quote, quoteValue, Secrets } from '../../../cli/doctor/quote.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

describe('the command line', () => {
  const CHALLENGES: Readonly<Record<string, (size: number) => string>> = {
    commas: (size) => `Bearer ${','.repeat(size)}`,
    spaces: (size) => `Bearer a${' '.repeat(size)}=${' '.repeat(size)}b`,
    'spaces after tokens': (size) => `Bearer a=b${', c =d '.repeat(size)}`,
    'equals signs': (size) => `Bearer ${'a='.repeat(size)}`,
    'equals signs and spaces': (size) => `Bearer a${'='.repeat(size)}${' '.repeat(size)}b`,
    schemes: (size) => 'Bearer a, '.repeat(size),
    parameters: (size) => `Bearer ${Array.from({ length: size }, (_, index) => `a${index}=b`).join(', ')}`,
    'quoted pairs': (size) => `Bearer a="${'\\a'.repeat(size)}`,
  }
  for (const [what, make] of Object.entries(CHALLENGES)) {
    it(`a WWW-Authenticate header with many ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => {
        try {
          parseChallenges(make(size))
        } catch {
          // The parser reports a syntax error. That must take linear time too.
        }
      }, 10_000))
  }

  for (const [what, chunk, begun] of [
    ['comments', ':\n', ''],
    ['empty events', '\n\n', ''],
    ['single bytes of one line', 'a', ''],
    ['single bytes after a long beginning', 'a', 'a'.repeat(50)],
    ['lines of one event', 'data: {\r\n', ''],
  ] as const) {
    it(`an event stream of many chunks with ${what} is read in linear time`, () =>
      expectLinearGrowth((size) => {
        const events = new EventReader()
        events.read(begun.repeat(size))
        for (let index = 0; index < size; index++) events.read(chunk)
        events.read('\n\n')
      }, 10_000))
  }

  it('a string with many control characters is quoted in linear time', () =>
    expectLinearGrowth((size) => quote('\x1b \u202e'.repeat(size)), 100_000))

  it('a list of many values is quoted in linear time', () =>
    expectLinearGrowth((size) => quoteValue(Array.from({ length: size }, () => '\x1b')), 20_000))

  it('a list of many tools is checked in linear time', () =>
    expectLinearGrowth((size) => {
      const tools = Array.from({ length: size }, (_, index) => ({
        name: `t${index}`,
        inputSchema: { type: 'object' },
      }))
      checkTools(tools, '')
    }, 20_000))

  it('a secret with many parts is redacted in linear time', () =>
    expectLinearGrowth((size) => {
      const secrets = new Secrets()
      secrets.add(Array.from({ length: size }, (_, index) => `${index}`.padStart(20, 'a')).join('.'))
      secrets.erase('abc…'.repeat(size))
    }, 2_000))
})
