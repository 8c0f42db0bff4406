import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import {
  isOptionsObject,
  type OptionKit,
  type OptionProblem,
  optionKit,
} from '../../../src/base/options/option-kit.ts'
import { also, optional, orEmpty } from '../../../src/base/options/option-rules.ts'

class Problem extends Error {
  readonly problem: OptionProblem
  constructor(problem: OptionProblem) {
    super(problem.message)
    this.problem = problem
  }
}

const kit: OptionKit<Problem> = optionKit((problem) => new Problem(problem))
const MAX = 2_147_483_647
const { MAX_SAFE_INTEGER } = Number

/** Returns the problem with which a check ends. */
function problemOf(check: () => unknown): OptionProblem {
  try {
    check()
  } catch (error) {
    return (error as Problem).problem
  }
  throw new Error('The check did not throw.')
}

const messageOf = (check: () => unknown): string => problemOf(check).message

describe('isOptionsObject()', () => {
  const plain = [{}, Object.create(null), runInNewContext('({ a: 1 })'), new Proxy({}, {})]
  const others = [
    new Map(),
    new Headers(),
    new (class Options {})(),
    Object.create({ a: 1 }),
    [],
    null,
    () => {},
  ]
  for (const [values, expected] of [
    [plain, true],
    [others, false],
  ] as const)
    for (const [index, value] of values.entries())
      it(`object ${index} of those that are${expected ? '' : ' not'} plain is recognized`, () => {
        expect(isOptionsObject(value)).to.equal(expected)
      })
})

describe('optionKit()', () => {
  for (const [what, check, fitting, others, message] of [
    [
      'a whole number from 1 to 3',
      (value) => kit.checkWholeNumber('max', value, 1, 3),
      [1, 3],
      [0, 4, 1.5, '1', null, Number.NaN],
      'max must be a whole number from 1 to 3; received',
    ],
    [
      'a whole number without a maximum of its own',
      (value) => kit.wholeNumber(0)('max', value, {}),
      [0, MAX],
      [-1, MAX + 1],
      `max must be a whole number from 0 to ${MAX}; received`,
    ],
    [
      'a whole number without a maximum',
      (value) => kit.wholeNumber(1, MAX_SAFE_INTEGER)('max', value, {}),
      [1, MAX_SAFE_INTEGER],
      [0, MAX_SAFE_INTEGER + 1],
      'max must be a whole number of at least 1; received',
    ],
    [
      'a number of milliseconds from 0',
      (value) => kit.checkMs('ms', value, 0),
      [0, 0.5, MAX],
      [-0.5, MAX + 1, '5', Number.NaN, Number.POSITIVE_INFINITY],
      `ms must be a number of milliseconds of at least 0 and at most ${MAX}; received`,
    ],
    [
      'a number of milliseconds above 0',
      (value) => kit.checkMs('ms', value, 'more than 0'),
      [0.5, 1, MAX],
      [0, -1, MAX + 1],
      `ms must be a number of milliseconds above 0 and at most ${MAX}; received`,
    ],
    [
      'a boolean',
      (value) => kit.checkBoolean('on', value),
      [true, false],
      ['true', 1, null],
      'on must be true or false; received',
    ],
    [
      'a string',
      (value) => kit.checkString('text', value),
      ['', 'a'],
      [1, null],
      'text must be a string; received',
    ],
    [
      'a string that is not empty',
      (value) => kit.text('text', value),
      ['a', ' '],
      ['', 1, null],
      'text must be a non-empty string; received',
    ],
    [
      'a secret',
      (value) => kit.secret('key', value),
      ['a'],
      ['', 1, null],
      'key must be a non-empty string; received',
    ],
    [
      'the only choice',
      (value) => kit.checkOneOf('mode', value, ['a']),
      ['a'],
      ['b'],
      "mode must be 'a'; received",
    ],
    [
      'one of two choices',
      (value) => kit.oneOf(['a', 'b'])('mode', value, {}),
      ['a', 'b'],
      ['c', 1],
      "mode must be 'a' or 'b'; received",
    ],
    [
      'one of three choices',
      (value) => kit.checkOneOf('mode', value, ['a', 'b', 'c']),
      ['b', 'c'],
      ['', null],
      "mode must be 'a', 'b' or 'c'; received",
    ],
  ] as [string, (value: unknown) => unknown, unknown[], unknown[], string][]) {
    it(`the check of ${what} returns the values that fit, and rejects others`, () => {
      for (const value of fitting) expect(check(value)).to.equal(value)
      for (const value of others) {
        const problem = problemOf(() => check(value))
        expect(problem.message, String(value)).to.satisfy((text: string) => text.startsWith(message))
        expect(problem).to.deep.include({ kind: 'invalid', option: problem.owner })
      }
    })
  }

  it('the rule of milliseconds rounds fractions up', () => {
    const rule = kit.milliseconds('more than 0')
    expect([0.1, 1, 1.5].map((value) => rule('ms', value, {}))).to.deep.equal([1, 1, 2])
  })

  it('an error shows the received value, but only the kind of a secret', () => {
    expect(messageOf(() => kit.checkWholeNumber('max', 9, 1, 3))).to.match(/; received 9\.$/)
    expect(messageOf(() => kit.text('text', 5))).to.match(/; received 5\.$/)
    expect(messageOf(() => kit.secret('key', 5))).to.match(/; received a number\.$/)
  })

  it('an error without a value does not say what was received', () => {
    expect(kit.invalidOption('a', 'must be b').message).to.equal('a must be b.')
    expect(kit.invalidOption('a', 'must be b', undefined).message).to.equal(
      'a must be b; received undefined.',
    )
    expect(kit.unusableOption('a', 'is used').message).to.equal('a is used.')
  })

  it('an error ends with the fix as a sentence', () => {
    for (const [fix, sentence] of [
      ['set it to b', 'Set it to b.'],
      ['Set it to b.', 'Set it to b.'],
      ["Did you mean 'b'?", "Did you mean 'b'?"],
      ['stop!', 'Stop!'],
    ] as const) {
      expect(kit.unusableOption('a', 'is used', fix).message).to.equal(`a is used. ${sentence}`)
      expect(kit.invalidKind('a', 'must be b', 'S3cr3t', fix).message).to.equal(
        `a must be b; received a string of 6 characters. ${sentence}`,
      )
      expect(kit.missingOption('a', fix).message).to.equal(`a is missing. ${sentence}`)
    }
  })

  it('a choice that is misspelt is named', () => {
    expect(messageOf(() => kit.checkOneOf('mode', 'statless', ['stateless', 'sessions']))).to.equal(
      "mode must be 'stateless' or 'sessions'; received 'statless'. Did you mean 'stateless'?",
    )
  })

  it('a list of strings is copied and frozen, and its first wrong item is named', () => {
    const given = ['a', 'b']
    const checked = kit.checkTexts('names', given)
    expect(checked).to.deep.equal(given)
    expect(checked).to.not.equal(given)
    expect(Object.isFrozen(checked)).to.equal(true)
    expect(kit.checkTexts('names', [])).to.deep.equal([])
    expect(messageOf(() => kit.checkTexts('names', ['a', '', 5]))).to.equal(
      'names must contain only non-empty strings; received an empty string. Check item 1.',
    )
    expect(messageOf(() => kit.checkTexts('names', ['a', 'b', 5]))).to.contain('a number. Check item 2.')
    expect(messageOf(() => kit.checkTexts('names', 'a'))).to.equal(
      'names must be an array of non-empty strings; received a string of 1 character.',
    )
  })

  it('a function that is missing is another problem than one that is not a function', () => {
    for (const value of [undefined, null])
      expect(problemOf(() => kit.checkFunction('log', value, 'set log'))).to.deep.equal({
        kind: 'missing',
        option: 'log',
        owner: 'log',
        message: 'log is missing. Set log.',
      })
    expect(messageOf(() => kit.checkFunction('log', 'x', 'set log'))).to.equal(
      'log must be a function; received a string of 1 character. Set log.',
    )
    const log = () => 1
    expect(kit.callable('set log')('log', log, {})).to.equal(log)
  })

  it('an object needs each of its functions', () => {
    const rule = kit.withFunctions<{ get: unknown; set: unknown }>(
      'must be a store',
      ['get', 'set'],
      'add it',
    )
    const store = { get: () => 1, set: () => 2 }
    expect(rule('store', store, {})).to.equal(store)
    expect(messageOf(() => rule('store', { get: () => 1 }, {}))).to.equal('store.set is missing. Add it.')
    expect(messageOf(() => rule('store', { ...store, get: 1 }, {}))).to.contain(
      'store.get must be a function',
    )
    for (const value of [() => store, [store], null])
      expect(messageOf(() => rule('store', value, {}))).to.match(/^store must be a store; received/)
  })

  it('the items of an array have the name of the option, and a minimum number', () => {
    const rule = kit.items('must be a list of texts', kit.text, 2)
    const given = ['a', 'b']
    const read = rule('list', given, {})
    expect(read).to.deep.equal(given)
    expect(read).to.not.equal(given)
    expect(Object.isFrozen(read)).to.equal(true)
    expect(messageOf(() => rule('list', ['a'], {}))).to.equal(
      'list must be a list of texts; received an array of 1 item.',
    )
    expect(messageOf(() => rule('list', ['a', ''], {}))).to.contain('list must be a non-empty string')
    expect(messageOf(() => rule('list', 'ab', {}))).to.contain('list must be a list of texts')
    expect(kit.items('must be a list', kit.text)('list', [], {})).to.deep.equal([])
  })

  it('a required option may be anything but undefined and null', () => {
    const rule = kit.required(optional(kit.checkString), 'set it')
    expect(rule('a', '', {})).to.equal('')
    for (const value of [undefined, null])
      expect(messageOf(() => rule('a', value, {}))).to.equal('a is missing. Set it.')
  })

  it('options are read by their rules into a frozen object, with the names of members in errors', () => {
    const seen: unknown[] = []
    const rules = {
      max: optional(kit.wholeNumber(1), 5),
      name: optional(kit.text),
      limits: orEmpty(kit.members('must be an object', { ms: optional(kit.milliseconds(0), 7) })),
      mode: also(optional(kit.oneOf(['a', 'b']), 'a'), (...args) => seen.push(args)),
    }
    const given = { limits: { ms: 1.5 }, mode: undefined }
    const read = kit.readOptions('create()', 'must be an object', given, rules)
    expect(read).to.deep.equal({ max: 5, name: undefined, limits: { ms: 2 }, mode: 'a' })
    expect([Object.isFrozen(read), Object.isFrozen(read.limits)]).to.deep.equal([true, true])
    expect(seen).to.deep.equal([['mode', 'a', given]])
    expect(kit.readOptions('create()', 'must be an object', {}, rules).limits).to.deep.equal({ ms: 7 })
    const readOf = (options: unknown, argument?: string) => () =>
      kit.readOptions('create()', 'must be an object', options, rules, argument)
    expect(messageOf(readOf({ limits: { ms: -1 } }))).to.match(/^limits\.ms must be/)
    expect(messageOf(readOf({ limits: [] }))).to.equal('limits must be an object; received an empty array.')
    expect(messageOf(readOf(5))).to.equal('create() must be an object; received a number.')
    expect(messageOf(readOf(undefined, 'the argument'))).to.equal(
      'the argument must be an object; received undefined.',
    )
    expect(problemOf(readOf({ limits: { mss: 1 } }))).to.deep.equal({
      kind: 'unknown',
      option: 'limits.mss',
      owner: 'limits',
      message: "limits has no option 'mss'. Did you mean 'ms'? Known options: ms.",
    })
    expect(problemOf(readOf({ naem: 1 }))).to.deep.include({ option: 'naem', owner: 'create()' })
  })

  it('options are copied with their checks, and other words for them are known', () => {
    const checks = { names: kit.checkTexts, on: kit.checkBoolean }
    const given: { names?: string[]; on?: boolean } = { names: ['a'] }
    const copy = kit.copyOptions('withNames', given, checks as never)
    expect(copy).to.deep.equal(given)
    expect(copy).to.not.equal(given)
    expect(copy.names).to.not.equal(given.names)
    expect([Object.isFrozen(copy), Object.isFrozen(copy.names)]).to.deep.equal([true, true])
    expect(kit.copyOptions('withNames', { on: undefined } as object, checks as never)).to.deep.equal({
      on: undefined,
    })
    const copied = (options: unknown, aliases?: Record<string, string>) => () =>
      kit.copyOptions('withNames', options as object, checks as never, aliases)
    expect(messageOf(copied({ on: 1 }))).to.equal('withNames({ on }) must be true or false; received 1.')
    expect(messageOf(copied([]))).to.equal(
      'the argument of withNames() must be an object; received an empty array.',
    )
    expect(messageOf(copied({ enabled: true }, { enabled: 'on' }))).to.equal(
      "withNames() has no option 'enabled'. Did you mean 'on'? Known options: names, on.",
    )
    expect(messageOf(copied({ toString: 1 }, {}))).to.equal(
      "withNames() has no option 'toString'. Known options: names, on.",
    )
  })
})
