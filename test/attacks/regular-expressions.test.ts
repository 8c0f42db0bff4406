import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { sep } from 'node:path'
import { expect } from 'chai'
import { check } from 'recheck'
import { regularExpressionsOf } from '../support/attacks/regular-expressions-of.ts'

const ROOT = new URL('../../../', import.meta.url)
const LIST = new URL('../../../test/attacks/regular-expressions.json', import.meta.url)

/**
 * - `outside`: from clients, authorization servers, and other servers.
 * - `options`: from the application: its options, its tools, and the arguments of the command line.
 * - `own`: only from this package, from Node.js, or from a library.
 */
const INPUTS = ['outside', 'options', 'own'] as const

/** The largest number of steps of an expression that is not linear, for the longest input that can reach it. */
const MAX_STEPS = 1_000_000

/** Steps decide, not time: on a busy machine, recheck would take longer and report short attacks. */
const LIMITS = { timeout: 120_000, attackTimeout: null, incubationTimeout: null }

interface Entry {
  readonly input: (typeof INPUTS)[number] | ''
  /** The reason why the expression takes linear time. */
  readonly linear: string
  /** For an expression that takes polynomial time: the length to which the code limits its input. */
  readonly maxLength?: number
  /** For an expression that is built from strings: an example of the largest one, as `/pattern/flags`. */
  readonly example?: string
}

/** The entries by file and expression. */
type List = Readonly<Record<string, Readonly<Record<string, Entry>>>>

/** Returns the expressions of `src` and `cli`, by file. */
function expressionsOfSources(): ReadonlyMap<string, ReturnType<typeof regularExpressionsOf>> {
  const files = ['cli', 'src']
    .flatMap((folder) =>
      readdirSync(new URL(folder, ROOT), { recursive: true, encoding: 'utf8' }).map(
        (file) => `${folder}/${file.split(sep).join('/')}`,
      ),
    )
    .filter((file) => file.endsWith('.ts'))
    .sort()
  return new Map(
    files
      .map((file) => [file, regularExpressionsOf(readFileSync(new URL(file, ROOT), 'utf8'))] as const)
      .filter(([, found]) => found.length > 0),
  )
}

/** Returns the list with an empty entry for each expression that is missing, and without those that are gone. */
function updated(list: List, expressions: ReturnType<typeof expressionsOfSources>): List {
  const empty: Entry = { input: '', linear: '' }
  return Object.fromEntries(
    [...expressions].map(([file, found]) => [
      file,
      Object.fromEntries(found.map(({ code }) => [code, list[file]?.[code] ?? empty])),
    ]),
  )
}

function literalOf(text: string): { pattern: string; flags: string } {
  const end = text.lastIndexOf('/')
  return { pattern: text.slice(1, end), flags: text.slice(end + 1) }
}

/** Returns the reason why the expression could take too long, or `undefined`. */
async function problemOf(
  { pattern, flags }: { pattern: string; flags: string },
  maxLength: number | undefined,
): Promise<string | undefined> {
  const result = await check(pattern, flags, LIMITS)
  if (result.status === 'unknown') return `recheck cannot tell: ${result.error.kind}`
  if (result.status === 'safe')
    return maxLength === undefined ? undefined : 'is linear: remove "maxLength" from its entry'
  if (result.complexity.type === 'exponential' || maxLength === undefined)
    return `takes ${result.complexity.summary} time, for example for ${result.attack.pattern}`
  const steps = maxLength ** result.complexity.degree
  return steps <= MAX_STEPS ? undefined : `takes ${steps} steps for ${maxLength} characters`
}

describe('regular expressions', () => {
  const expressions = expressionsOfSources()
  const list: List = existsSync(LIST) ? JSON.parse(readFileSync(LIST, 'utf8')) : {}

  it('every regular expression of the sources is listed with the origin of its input and the reason why it is linear', () => {
    const complete = updated(list, expressions)
    if (process.env.UPDATE === '1') writeFileSync(LIST, `${JSON.stringify(complete, null, 2)}\n`)
    const fix =
      'run `UPDATE=1 node node_modules/mocha/bin/mocha.js --no-config build/test/attacks/regular-expressions.test.js` and fill in the new entries'
    expect(list, fix).to.deep.equal(complete)

    for (const [file, entries] of Object.entries(list)) {
      for (const [code, { input, linear }] of Object.entries(entries)) {
        expect(INPUTS, `"input" of ${file}: ${code}`).to.include(input)
        expect(linear, `"linear" of ${file}: ${code}`).to.match(/\S{2}/)
      }
    }
  })

  it('regular expressions whose input comes from outside or from options take linear time', async function () {
    this.timeout(300_000)
    const problems: string[] = []
    for (const [file, found] of expressions) {
      for (const { code, literal } of found) {
        const { input, maxLength, example } = list[file]?.[code] ?? {}
        const checked = literal ?? (example === undefined ? undefined : literalOf(example))
        if (checked === undefined && input === 'outside')
          problems.push(`${file}: ${code} needs an "example" in its entry`)
        if (checked === undefined || input === 'own') continue
        const problem = await problemOf(checked, maxLength)
        if (problem !== undefined) problems.push(`${file}: ${code} ${problem}`)
      }
    }
    expect(problems.join('\n')).to.equal('')
  })

  const FOUND: readonly (readonly [source: string, codes: readonly string[]])[] = [
    ['const a = /a+/gi', ['/a+/gi']],
    ['const a = b / c / d; const e = "/f/"; // /g/', []],
    ['const a: RegExp = new RegExp(b + "+", "u")', ['new RegExp(b + "+", "u")']],
    ['const a: readonly RegExp[] = []', []],
    ['RegExp(\n  a\n)', ['RegExp( a )']],
    ['text.match("a+"); text.search(`b`); text.match(c)', ['text.match("a+")', 'text.search(`b`)']],
    ['a instanceof RegExp', []],
  ]
  for (const [source, codes] of FOUND) {
    it(`the scan of ${JSON.stringify(source)} finds ${codes.length} regular expressions`, () => {
      expect(regularExpressionsOf(source).map(({ code }) => code)).to.deep.equal(codes)
    })
  }

  it('an unknown use of RegExp is an error', () => {
    expect(() => regularExpressionsOf('const Alias = RegExp')).to.throw(
      'This use of RegExp is not understood',
    )
  })

  const PROBLEMS: readonly (readonly [expression: string, maxLength: number | undefined, problem: RegExp])[] =
    [
      ['/(a+)+$/', undefined, /^takes exponential time/],
      ['/(a+)+$/', 10, /^takes exponential time/],
      ['/a+$/', undefined, /^takes 2nd degree polynomial time/],
      ['/a+$/', 10_000, /^takes 100000000 steps for 10000 characters/],
      ['/^a+$/', 100, /^is linear: remove "maxLength"/],
    ]
  for (const [expression, maxLength, problem] of PROBLEMS) {
    it(`the check rejects a superlinear expression: ${expression}, maxLength ${maxLength}`, async () => {
      expect(await problemOf(literalOf(expression), maxLength)).to.match(problem)
    })
  }
  for (const [expression, maxLength] of [
    ['/^a+$/', undefined],
    ['/a+$/', 1_000],
  ] as const) {
    it(`the check accepts a linear expression or a short input: ${expression}, maxLength ${maxLength}`, async () => {
      expect(await problemOf(literalOf(expression), maxLength)).to.equal(undefined)
    })
  }
})
