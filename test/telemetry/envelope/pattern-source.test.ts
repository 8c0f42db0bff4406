import { expect } from 'chai'
import { problemOfPattern } from '../../../src/telemetry/envelope/string-redactor.ts'

/** Returns a pattern that TypeScript or the linter does not accept as a literal. */
const made = (source: string, flags = ''): RegExp => new RegExp(source, flags)

describe('problemOfPattern()', () => {
  const ACCEPTED = [
    ...[
      /\bticket-\d+\b/,
      /id(?:-\d+){1,3}/,
      /[a-z.]+@[a-z.]+/,
      /begin[\s\S]*end/,
      /(?:ab)+/,
      /(?:a{1,64}b)+/,
    ],
    ...[/(?:[a-z]+){0,64}/, /a+(?:b)+/, /(?:a+)b+/, /x(?=a+)/, /(?:a{1,64}){64}/, /a{4097}/, /a{,3}{2}/],
    // Characters of classes and escaped ones are not groups, quantifiers, or references.
    ...[
      /(?:[+*])+/,
      /(?:\+)+/,
      /(?:[\]+])*/,
      /[(+)]+/,
      /\(a+\)+/,
      /([(?<=)1])/,
      made('(?:[[+*]--[a]])+', 'v'),
    ],
    // Without such a group, a number is the code of a character. Without named groups, \k is a letter.
    ...['(a)\\2', '\\1', '(?:a)\\1', '(a)\\12', '\\k<n>', '(a)[\\1]'].map((source) => made(source)),
  ]
  for (const pattern of ACCEPTED) {
    it(`the pattern ${pattern} is accepted`, () => {
      expect(problemOfPattern(pattern.source, pattern.flags)).to.equal(undefined)
    })
  }

  const REJECTED: readonly (readonly [problem: string, patterns: readonly RegExp[]])[] = [
    [
      'must not have a back-reference',
      [
        /(a)\1/,
        made('\\1(a)'),
        /(?<n>a)\k<n>/,
        /(?<n>a)\1/u,
        /([(])\1/,
        /((((((((((a))))))))))\10/,
        made('(?<n>a)\\k<n>', 'v'),
      ],
    ],
    ['must not have a lookbehind', [/(?<=id )\d+/, /(?<!a)b/, /a(?:b|(?<=c))/]],
    [
      'must not repeat a group without a bound that itself has an unbounded quantifier',
      [
        ...[
          /(a+)+/,
          /(?:a*)*/,
          /(?:a{2,}b){3,}/,
          /(?:a+?)+?/,
          /(?<n>a+|b)*/,
          /(?:(?:a+){1,3}b)+/,
          /(?:\++)+/,
        ],
        ...[made('(?:[[a]--[b]]+)+', 'v'), /x(?:(?:a|b)*c)+y/, /(?:(?:a+)(?:b)c)+/, /(?=a+)+/],
      ],
    ],
  ]
  for (const [problem, patterns] of REJECTED) {
    for (const { source, flags } of patterns) {
      it(`the pattern /${source}/${flags} ${problem}`, () => {
        expect(problemOfPattern(source, flags)?.problem).to.equal(problem)
      })
    }
  }
})
