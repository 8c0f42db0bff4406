import { expect } from 'chai'
import { check } from 'recheck'
import { expressionsOfSources, storedList } from '../support/attacks/regular-expression-list.ts'

/** The largest number of steps of an expression that is not linear, for the longest input that can reach it. */
const MAX_STEPS = 1_000_000

/** Steps decide, not time: on a busy machine, recheck would take longer and report short attacks. */
const LIMITS = { timeout: 120_000, attackTimeout: null, incubationTimeout: null }

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
  it('regular expressions whose input comes from outside or from options take linear time', async function () {
    this.timeout(300_000)
    const list = storedList()
    const problems: string[] = []
    for (const [file, found] of expressionsOfSources()) {
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
