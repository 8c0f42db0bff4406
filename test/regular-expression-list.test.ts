import { writeFileSync } from 'node:fs'
import { expect } from 'chai'
import {
  type Entry,
  expressionsOfSources,
  INPUTS,
  LIST,
  type List,
  storedList,
} from './support/attacks/regular-expression-list.ts'
import { regularExpressionsOf } from './support/attacks/regular-expressions-of.ts'

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

describe('list of regular expressions', () => {
  it('every regular expression of the sources is listed with the origin of its input and the reason why it is linear', () => {
    const list = storedList()
    const complete = updated(list, expressionsOfSources())
    if (process.env.UPDATE === '1') writeFileSync(LIST, `${JSON.stringify(complete, null, 2)}\n`)
    const fix =
      'run `UPDATE=1 node node_modules/mocha/bin/mocha.js --no-config build/test/regular-expression-list.test.js` and fill in the new entries'
    expect(list, fix).to.deep.equal(complete)

    for (const [file, entries] of Object.entries(list)) {
      for (const [code, { input, linear }] of Object.entries(entries)) {
        expect(INPUTS, `"input" of ${file}: ${code}`).to.include(input)
        expect(linear, `"linear" of ${file}: ${code}`).to.match(/\S{2}/)
      }
    }
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
})
