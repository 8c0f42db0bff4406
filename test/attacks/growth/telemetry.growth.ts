import { TokenRedactor } from '../../../src/mcp/instrumentation/token-redactor.ts'
import { toRedactedJson } from '../../../src/telemetry/envelope/redacted-json.ts'
import { KeyRules, resolveRedactionPolicy } from '../../../src/telemetry/envelope/redaction.ts'
import { readTime } from '../../../src/telemetry/envelope/time.ts'
import { checkEventName } from '../../../src/telemetry/events/event-name.ts'
import {
  KitTelemetry,
  LoggerTransportAdapter,
  type TelemetryRedactionPolicy,
} from '../../../src/telemetry/index.ts'
import { compileGlob } from '../../../src/telemetry/session/sampling.ts'
import { expectLinearGrowth } from '../../support/attacks/growth.ts'

const rules = (policy: TelemetryRedactionPolicy) => new KeyRules(resolveRedactionPolicy(policy))

const wide = (size: number): Record<string, unknown> =>
  Object.fromEntries(Array.from({ length: size }, (_, index) => [`key-${index}`, index]))

/** Returns a string that does not share memory with another string. */
const text = (size: number, of = 'x'): string => Buffer.from(of.repeat(size)).toString()

/** Returns a chain of errors without stacks, because creating stacks is slow. */
function causes(size: number, message: string): Error {
  const { stackTraceLimit } = Error
  Error.stackTraceLimit = 0
  let error = new Error(message)
  for (let level = 0; level < size; level++) error = new Error(message, { cause: error })
  Error.stackTraceLimit = stackTraceLimit
  return error
}

/** Creates each input once, so that only its processing is measured. */
function once<Input>(make: (size: number) => Input): (size: number) => Input {
  const made = new Map<number, Input>()
  return (size) => {
    const input = made.get(size) ?? make(size)
    made.set(size, input)
    return input
  }
}

describe('telemetry', () => {
  const ATTRIBUTES: Readonly<Record<string, (size: number) => object>> = {
    'many keys': wide,
    'many nested keys': (size) => {
      let deep: object = {}
      for (let level = 0; level < size; level++) deep = { deep }
      return deep
    },
    'many arrays': (size) => ({
      list: Array.from({ length: size }, (_, index) => [index, [`item ${index}`]]),
    }),
    'a map of many entries': (size) => ({ map: new Map(Object.entries(wide(size))) }),
    'a long string': (size) => ({ text: text(100 * size) }),
    'a long key': (size) => ({ [text(100 * size, 'a.')]: 1 }),
    'many keys below a long key': (size) => ({ [text(size)]: wide(size) }),
    'many keys below long keys': (size) => ({
      a: { [text(size, 'password')]: { [text(size)]: wide(size) } },
    }),
    'a long key that is hashed': (size) => ({ email: text(100 * size) }),
    'a long chain of causes': (size) => ({ error: causes(size, 'x') }),
    'a wide AggregateError': (size) => ({
      error: new AggregateError(new Array(size).fill(new Error('x')), 'x'),
    }),
    'many characters that need escaping': (size) => ({ text: text(size, '\u0000"\\') }),
  }
  /** Copying arrays is so fast that garbage collection would dominate the measurement. */
  const sizeFor = (what: string) => (what === 'many arrays' ? 1_000 : 5_000)
  const POLICIES: Readonly<Record<string, TelemetryRedactionPolicy>> = {
    'without rules': { maxStringLength: 10_000_000 },
    'with wildcards': { denylistKeys: ['*a*b*c', 'x*.*key-*9'], hashKeys: ['*.*.*.*y*'] },
    'with paths': { denylistKeys: ['user.password', '.token', 'a..b'], hashKeys: ['email', 'user.email'] },
  }
  for (const [what, make] of Object.entries(ATTRIBUTES)) {
    const made = once(make)
    for (const [how, policy] of Object.entries(POLICIES)) {
      it(`attributes with ${what} are copied ${how} in linear time`, () =>
        expectLinearGrowth((size) => toRedactedJson(made(size), rules(policy)), sizeFor(what)))
    }
  }

  const WRITTEN = [
    'many keys',
    'many arrays',
    'a long string',
    'a long key',
    'many characters that need escaping',
  ]
  for (const format of ['json', 'pino', 'pretty'] as const) {
    for (const what of WRITTEN) {
      const made = once(ATTRIBUTES[what] as (size: number) => object)
      it(`attributes with ${what} are written as ${format} in linear time`, () => {
        const write = (): void => undefined
        const logger = { debug: write, info: write, warn: write, error: write }
        const telemetry = KitTelemetry.create()
          .withSampling({ infoRate: 1 })
          .withRedaction({ maxStringLength: 10_000_000 })
          .addTransport(LoggerTransportAdapter.create({ logger, format }))
          .build()
        expectLinearGrowth((size) => telemetry.emit('x', { attributes: made(size) }), sizeFor(what))
      })
    }
  }

  it('attributes are added to a session one by one in linear time', () =>
    expectLinearGrowth((size) => {
      const session = KitTelemetry.create().build().session()
      for (let index = 0; index < size; index++) session.attributes({ [`key-${index}`]: index })
    }, 1_000))

  const GLOBS = ['*a*a*a*b', '*?*?*?b', `${'*a'.repeat(20)}b`, '*aaaaaaaab', '?*'.repeat(20), '**a**']
  for (const pattern of GLOBS) {
    const matches = compileGlob(pattern)
    it(`the pattern ${pattern} is matched in linear time`, () =>
      expectLinearGrowth((size) => matches(text(size, 'a')), 20_000))
  }

  it('a name of 256 characters is matched in time that is linear in the pattern', () =>
    expectLinearGrowth((size) => compileGlob(text(size, '*a?'))(text(256, 'a')), 5_000))

  it('a time is read in linear time', () =>
    expectLinearGrowth((size) => readTime(`2026-01-01T00:00:00.${text(100 * size, '0')}`), 20_000))

  it('an event name is checked in linear time', () =>
    expectLinearGrowth((size) => {
      try {
        checkEventName(text(100 * size, 'a.'))
      } catch {
        // The name is too long.
      }
    }, 20_000))

  const TOKEN = 'header-of-the-token.payload-of-the-token.signature-of-the-token'
  const ERASED: Readonly<Record<string, (size: number) => unknown>> = {
    'a string without the token': (size) => new TokenRedactor(TOKEN).text(text(100 * size, 'header-of-the-')),
    'a string of tokens': (size) => new TokenRedactor(TOKEN).text(text(size, TOKEN)),
    'a string of parts of the token': (size) =>
      new TokenRedactor(TOKEN).text(text(size, 'payload-of-the-token.')),
    'a string that is cut': (size) => new TokenRedactor(TOKEN).cut(text(size, TOKEN), 128),
    'a string and a header of many tokens': (size) =>
      new TokenRedactor(`Bearer ${text(size, `${TOKEN},`)}`).text(text(10 * size)),
    'a string and a token of many parts': (size) =>
      new TokenRedactor(text(size, 'part-of-16-chars.')).text(text(10 * size)),
    'a long chain of causes': (size) => new TokenRedactor(TOKEN).thrown(causes(size, TOKEN)),
    'a long message': (size) => new TokenRedactor(TOKEN).thrown(text(size, TOKEN)),
  }
  for (const [what, erase] of Object.entries(ERASED)) {
    it(`a token is redacted from ${what} in linear time`, () => expectLinearGrowth(erase, 5_000))
  }
})
