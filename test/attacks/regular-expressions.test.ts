import { expect } from 'chai'
import { check } from 'recheck'
import { expressionsOfSources, regularExpressionsOf } from '../support/attacks/regular-expressions-of.ts'

/** An expression that the check cannot accept by itself. */
interface Exception {
  /** The reason why it takes linear time all the same, or why nothing slow can reach it. */
  readonly reason: string
  /** For an expression that is built from strings: an example of the largest one, which is checked. */
  readonly example?: RegExp
}

/** Expressions that are built from strings, and those that take polynomial time and get only texts of this package or of Node.js. */
const EXCEPTIONS: Readonly<Record<string, Exception>> = {
  'cli/doctor/clients.ts: /\\]\\((https:[^)]*)\\)/': { reason: 'Guide of this package.' },
  'cli/doctor/clients.ts: /<(https:[^>]*)>/': { reason: 'Guide of this package.' },
  'cli/doctor/clients.ts: /(POST|GET|HEAD)(?: `(.*?)`)? as `(.*?)`(?: `(.*?)`)?(?: `(.*?)`)?/g': {
    reason: 'Guide of this package.',
  },
  'cli/dev/events/kinds.ts: /\\{(\\w+)\\|?([^}]*)\\}/g': { reason: 'Titles and hints of this package.' },
  "cli/doctor/checks/tools.ts: new RegExp(pattern as string, 'u')": {
    reason: 'A pattern of the server is only compiled, and never used on a text.',
  },
  "src/mcp/router/schemas/listed-schema.ts: new RegExp(pattern, 'u')": {
    reason: 'A pattern of the application is only compiled, and never used on a text.',
  },
  'src/mcp/router/uris/uri-template.ts: new RegExp(`^(?:[^{}]|\\\\{(?:[+./]?${VARIABLE}|[?&]${VARIABLE}(?:,${VARIABLE})*)\\\\})*$`)':
    {
      reason: 'Each repetition begins with another character than those before can contain.',
      example:
        /^(?:[^{}]|\{(?:[+./]?[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\*?|[?&][A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\*?(?:,[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)*\*?)*)\})*$/,
    },
  'src/openapi/document.ts: /,? (?:\\.\\.\\.)?".*"(?:\\.\\.\\.)? is not valid JSON$/s': {
    reason: 'Message of V8, which quotes a few characters of the document.',
  },
  "src/telemetry/envelope/secret-hints.ts: new RegExp(`^${parts.join('-')}$`)": {
    reason: 'Classes without quantifiers.',
    example: /^[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}$/,
  },
  "src/telemetry/envelope/string-redactor.ts: new RegExp(source, flags.includes('g') ? flags : `${flags}g`)":
    {
      reason: 'Patterns of the application may be slow, but the searched text is bounded.',
    },
  'src/testing/partial-match.ts: new RegExp(pattern)': { reason: "Pattern of the application's own test." },
}

/** Steps decide, not time: on a busy machine, recheck would take longer and report short attacks. */
const LIMITS = { timeout: 120_000, attackTimeout: null, incubationTimeout: null }

/** Returns the reason why an expression could take too long, or `undefined`. */
async function problemOf(pattern: string, flags: string): Promise<string | undefined> {
  const result = await check(pattern, flags, LIMITS)
  if (result.status === 'safe') return undefined
  if (result.status === 'unknown') return `recheck cannot tell: ${result.error.kind}`
  return `takes ${result.complexity.summary} time, for example for ${result.attack.pattern}`
}

describe('regular expressions', () => {
  it('every regular expression of the sources takes linear time, or is an exception with a reason', async function () {
    this.timeout(300_000)
    const problems: string[] = []
    const needless = new Set(Object.keys(EXCEPTIONS))
    for (const [file, found] of expressionsOfSources())
      for (const { code, literal } of found) {
        const name = `${file}: ${code}`
        const { example } = EXCEPTIONS[name] ?? {}
        const checked = literal ?? (example && { pattern: example.source, flags: example.flags })
        const problem =
          checked === undefined
            ? 'is built from strings, so that it needs an exception with an example'
            : await problemOf(checked.pattern, checked.flags)
        if (literal === undefined || problem !== undefined) needless.delete(name)
        if (problem !== undefined && (EXCEPTIONS[name] === undefined || example !== undefined))
          problems.push(`${name} ${problem}`)
      }
    expect(problems.join('\n')).to.equal('')
    expect([...needless], 'exceptions that are gone, or that take linear time').to.deep.equal([])
  })

  for (const [expression, problem] of [
    [/(a+)+$/, /^takes exponential time/],
    [/a+$/, /^takes 2nd degree polynomial time/],
    [/^a+$/, undefined],
  ] as const)
    it(`the check ${problem === undefined ? 'accepts' : 'reports'} ${expression}`, async () => {
      const found = await problemOf(expression.source, expression.flags)
      if (problem === undefined) expect(found).to.equal(undefined)
      else expect(found).to.match(problem)
    })

  it('an unknown use of RegExp is an error', () => {
    expect(() => regularExpressionsOf('const Alias = RegExp')).to.throw(
      'This use of RegExp is not understood',
    )
  })
})
