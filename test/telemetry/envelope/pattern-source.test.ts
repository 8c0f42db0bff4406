import { RegExpParser, visitRegExpAST } from '@eslint-community/regexpp'
import { expect } from 'chai'
import fc from 'fast-check'
import { MAX_REPETITIONS, problemOfPattern } from '../../../src/telemetry/envelope/pattern-source.ts'
import { runs } from '../../support/runs.ts'

/** Returns `true` if an independent parser finds what must be rejected. */
function isRejectedByParser(source: string, flags: string): boolean {
  const ast = new RegExpParser().parseLiteral(`/${source}/${flags}`)
  let isRejected = false
  let product = 1
  visitRegExpAST(ast, {
    onQuantifierEnter({ max }) {
      product *= Math.max(1, max)
      if (max === Number.POSITIVE_INFINITY || product > MAX_REPETITIONS) isRejected = true
    },
    onQuantifierLeave({ max }) {
      if (!isRejected) product /= Math.max(1, max)
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

describe('problemOfPattern()', () => {
  it('problemOfPattern() rejects what an independent parser finds in generated patterns, and else only too many ways', () => {
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
          const isRejected = problem !== undefined && !problem.includes(' ways')
          // A pattern may be rejected for its ways only after it was read to its end.
          expect(isRejected, `/${source}/${flags} ${problem}`).to.equal(isRejectedByParser(source, flags))
        },
      ),
      { numRuns: runs(20_000) },
    )
  })
})
