import { type AST, RegExpParser, visitRegExpAST } from '@eslint-community/regexpp'
import { expect } from 'chai'
import fc from 'fast-check'
import { MAX_REPETITIONS, problemOfPattern } from '../../../src/telemetry/envelope/pattern-source.ts'
import { stepsOf } from '../../support/attacks/backtracking-steps.ts'
import { piecesOf } from '../../support/attacks/pieces-of-pattern.ts'
import { runs } from '../../support/runs.ts'

/** Returns `true` if an independent parser finds what must be rejected. */
function isRejectedByParser(source: string, flags: string): boolean {
  const ast = new RegExpParser().parseLiteral(`/${source}/${flags}`)
  let isRejected = false
  let product = 1
  const boundOf = ({ min, max }: AST.Quantifier) => Math.max(1, Number.isFinite(max) ? max : min)
  visitRegExpAST(ast, {
    onQuantifierEnter(quantifier) {
      product *= boundOf(quantifier)
      const isGroup = /Group|Assertion/.test(quantifier.element.type)
      if ((isGroup && quantifier.max === Number.POSITIVE_INFINITY) || product > MAX_REPETITIONS)
        isRejected = true
    },
    onQuantifierLeave(quantifier) {
      if (!isRejected) product /= boundOf(quantifier)
    },
    onBackreferenceEnter() {
      isRejected = true
    },
    onAssertionEnter({ kind }) {
      if (kind === 'lookbehind') isRejected = true
    },
  })
  return isRejected
}

const PIECES = [
  ...[
    'a',
    'B',
    '5',
    '.',
    '^',
    '$',
    '|',
    '(',
    '(?:',
    '(?=',
    '(?!',
    '(?<=',
    '(?<!',
    '(?<n>',
    ')',
    '[',
    '[^',
    ']',
    '-',
    ':',
  ],
  ...[
    '*',
    '+',
    '?',
    '{2}',
    '{1,64}',
    '{3,}',
    '{65}',
    '{',
    '}',
    ',',
    '\\d',
    '\\W',
    '\\s',
    '\\b',
    '\\B',
    '\\.',
    '\\/',
  ],
  ...[
    '\\1',
    '\\2',
    '\\9',
    '\\0',
    '\\12',
    '\\k<n>',
    '\\k',
    '\\x41',
    '\\x4',
    '\\u0041',
    '\\u{41}',
    '\\cA',
    '\\c',
    '\\p{L}',
    '\\-',
  ],
  ...['ä', '🎉', '&&', '--'],
]

/** Biome does not accept `[^]` in a literal. */
const BETWEEN = 'begin[^]*end'

describe('problemOfPattern()', () => {
  const ACCEPTED = [
    ...[
      /ticket-\d+/,
      /cus_[A-Za-z0-9]+/,
      /"[^"]*"/,
      /\$\d+\.\d+/,
      /\$(?:\d+|[a-z]+)/,
      /id: ?\d{4,}?/,
      /#\d*/,
    ],
    ...[/\$\d+(?:\.\d{1,2})?/, /order-\d+-?/, /x[a-w]+(?:y[^x!]*!)?/, /(?:x\d+-?|y\d+z?)/],
    ...[/v\d{1,3}(?:\.\d+)?/, /(?:key|token)=[^&;]*/, /id\d+(?= EUR)/, /id\d+$/, /x[\d,]+:[a-w]*;/i],
    ...[/-\d{1,64}[^-\d;]*;/, /-\d?\d{1,31}[^-\d;]*;/, /-(?:,[^-,;]*){1,64};/, /-(?=[^-;]*;)x/],
    ...[/x[a-w]+(?!z);/, /(?=a\d*;)a[b-z]*;/, /(?!a\d*;)a[b-z]*;/, /x\d{1,64}(?!\d*;)y/],
    ...[
      /(?:a{1,64}b){1,64}/,
      /(?:a{1,64}){1,64}/,
      /[a-z]{1,60}?(?:ab|ba){0,500}\W/,
      /a{4096}/,
      /(?:a|a){12}b/,
    ],
  ]
  for (const pattern of ACCEPTED) {
    it(`the pattern ${pattern} is accepted`, () => {
      expect(problemOfPattern(pattern.source, pattern.flags)).to.equal(undefined)
    })
  }

  const REJECTED: readonly (readonly [pattern: RegExp, problem: RegExp])[] = [
    ...[
      ...[
        /[a-z.]+@[a-z.]+/,
        /\d+(?= EUR)/,
        /(?:ab)+/,
        /begin[\s\S]*end/,
        /a+/,
        /a*/,
        /a{2,}/,
        /a|b+/,
        /x(?:a)+/,
      ],
      ...[
        /x(?:a|b)+?y/,
        /[a-z]*x/,
        /(?=a+)/,
        /x(?=a+)/,
        /x\d+\d/,
        /x\d+\b/,
        /x\d+(?:a[^b]*b)?/,
        /(?:x\d+-?){1,2}/,
        /\d+-?/,
        /x\d*[\dy]?z/,
        /(?:x\d+){1,2}/,
      ],
      ...[/x[^y]*y/, /x?[^x;]*;/, /X[a-z]+;/i, /(?:x|é)[^x;]*;/, /x.{0,64}[^x;]*;/, /x(?:.[^x;]*){65};/],
      ...[/-(?:,[^-,;]*){1,65};/, /^[\s\S]*end/, new RegExp(BETWEEN)],
      // A look-ahead is tried wherever its own first character is, whatever the rest of the pattern begins with.
      ...[/(?=;{2,}\d)b/, /(?=(?=;{2,}\d)(?:b;))/, /(?!;{2,}\d)b/, /(?:c|(?=;{2,}\d)b)/, /c?\b(?=;{2,}\d)b/],
      ...[/x\d+(?!\d*y);/, /x\d+(?=(?!\d*y);)/, /x\d+(?:;|(?!\d*y)z)/, /(?:x\d+(?!\d*y);)?z/],
      ...[/x\d{1,65}(?!\d*y);/, /(?:(?!\d*y)\w){1,65}/],
    ].map((pattern) => [pattern, /^must have bounded quantifiers/] as const),
    ...[/a{4097}/, /xa{4097,}/, /(?:a{1,64}b){1,65}/, /(?:x(?=a{64})){65}/].map(
      (pattern) => [pattern, /product of at most 4096/] as const,
    ),
    ...[/[a-z]{1,60}?(?:ab|ba){0,4096}\W/, /(?:a{1,64}){64}/, /(?:a|a){13}b/, /[ab]{1,300}[bc]{1,300}d/].map(
      (pattern) => [pattern, /length of the longest match must be at most 65536/] as const,
    ),
  ]
  for (const [pattern, problem] of REJECTED) {
    it(`the pattern ${pattern} is rejected, because it ${problem.source.replace('^', '')}`, () => {
      expect(problemOfPattern(pattern.source, pattern.flags)?.problem).to.match(problem)
    })
  }

  it('accepted patterns with unbounded quantifiers search strings of their own parts in a number of steps that is linear', () => {
    const begin = fc.constantFrom('a', 'a', 'ab', 'a\\d?', 'a.{0,3}', 'aa{0,4}', '[ab]', '(?:a|;)', '')
    const atom = fc.constantFrom(
      ';',
      'b',
      '\\d',
      '\\d',
      '[^a;]',
      '[^a\\d]',
      '[^ab]',
      '[b;]',
      '[^;]',
      'a',
      '\\w',
      '.',
    )
    const quantifier = fc.constantFrom('', '', '', '', '?', '{0,3}', '{2}', '{1,4}?', '*', '+', '{2,}', '*?')
    const { pattern: patterns } = fc.letrec<{ pattern: string; part: string }>((tie) => ({
      part: fc
        .tuple(
          fc.oneof(
            { maxDepth: 2, depthSize: 'small', withCrossShrink: true },
            atom,
            tie('pattern').map((inner) => `(?:${inner})`),
            fc.tuple(tie('pattern'), tie('pattern')).map(([left, right]) => `(?:${left}|${right})`),
            tie('pattern').map((inner) => `(?=${inner})`),
            tie('pattern').map((inner) => `(?!${inner})`),
          ),
          quantifier,
          fc.constantFrom('', '', '', '', '', '', '\\b', '\\B', '$', '^'),
        )
        .map((texts) => texts.join('')),
      pattern: fc.array(tie('part'), { minLength: 1, maxLength: 4 }).map((parts) => parts.join('')),
    }))
    let accepted = 0
    fc.assert(
      fc.property(begin, patterns, fc.constantFrom('', 'a', 'b1'), (first, rest, tail) => {
        const source = first + rest
        if (!/[*+]|,\}/.test(source) || problemOfPattern(source, '') !== undefined) return
        accepted++
        const pattern = new RegExp(source)
        for (const piece of [...new Set([...piecesOf(pattern), 'a', 'b', '1', 'ab', 'a;'])]) {
          const last = piece.at(-1) as string
          for (const textOf of [
            (size: number) => piece.repeat(Math.ceil(size / piece.length)) + tail,
            (size: number) => piece + last.repeat(size) + tail,
          ]) {
            const [few, many] = [stepsOf(pattern, textOf(200)), stepsOf(pattern, textOf(800))]
            const where = `/${source}/ in ${JSON.stringify(piece)}: ${few} steps`
            expect(many, where).to.be.at.most(7 * few + 1_000)
          }
        }
      }),
      { numRuns: runs(25_000) },
    )
    expect(accepted).to.be.above(50)
  })

  it('problemOfPattern() rejects what an independent parser finds in generated patterns, and else only too many steps', () => {
    fc.assert(
      fc.property(
        fc.array(fc.constantFrom(...PIECES), { maxLength: 12 }),
        fc.constantFrom('', 'u', 'v', 'i', 'iu', 'gs'),
        (pieces, flags) => {
          const source = pieces.join('')
          try {
            new RegExp(source, flags)
          } catch {
            return
          }
          if (source === '') return
          const problem = problemOfPattern(source, flags)?.problem
          const isRejected = problem !== undefined && !/ ways|^must have bounded/.test(problem)
          // A pattern may be rejected for its steps only after it was read to its end.
          if (problem !== undefined && !isRejected) return
          expect(isRejected, `/${source}/${flags} ${problem}`).to.equal(isRejectedByParser(source, flags))
        },
      ),
      { numRuns: runs(20_000) },
    )
  })
})
