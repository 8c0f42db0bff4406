import { expect } from 'chai'
import fc from 'fast-check'
import { isAmbiguousJson } from '../../../src/mcp/wire/ambiguous-json.ts'

/** Writes a name with some characters as escapes, which parsers read as the same name. */
function escaped(name: string, which: readonly boolean[]): string {
  const units = Array.from({ length: name.length }, (_, at) => name.charAt(at))
  const written = units.map((unit, at) =>
    which[at] === true
      ? `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`
      : JSON.stringify(unit).slice(1, -1),
  )
  return `"${written.join('')}"`
}

const folded = (name: string): string => name.toUpperCase().toLowerCase()

/** Members whose names differ in more than their case. */
const members = fc
  .uniqueArray(fc.tuple(fc.string({ maxLength: 8 }), fc.jsonValue({ maxDepth: 2 })), {
    selector: ([name]) => folded(name),
    maxLength: 6,
  })
  .map((entries) => entries.filter(([name]) => name !== '__proto__'))

type Members = readonly (readonly [string, unknown])[]

const text = (entries: Members, more = ''): string =>
  `{${[...entries.map(([name, value]) => `${JSON.stringify(name)}:${JSON.stringify(value)}`), more].filter(Boolean).join(' , ')}}`

/** Returns a member, before and after members of other names. */
function around(entries: Members, name: string, json: string): string {
  const others = entries.filter(([other]) => folded(other) !== name)
  return text(others, `"${name}":${json}`)
}

/** The places in which members decide about the operation, with a message that has given members there. */
const PLACES: Readonly<Record<string, (others: Members, inner: string) => string>> = {
  'a message': (_others, inner) => inner,
  'a message of a batch': (others, inner) => `[${text(others)},${inner}]`,
  'the params': (others, inner) => around(others, 'params', inner),
  'the ref of the params': (others, inner) => around(others, 'params', around(others, 'ref', inner)),
  'the notifications of the params': (others, inner) =>
    around(others, 'params', around(others, 'notifications', inner)),
}

describe('isAmbiguousJson()', () => {
  for (const [place, make] of Object.entries(PLACES)) {
    it(`names that differ are clear in ${place}`, () => {
      fc.assert(
        fc.property(members, members, (others, inner) => {
          expect(isAmbiguousJson(make(others, text(inner)))).to.equal(false)
        }),
      )
    })

    it(`a name that occurs twice in ${place} is found, however it is written`, () => {
      fc.assert(
        fc.property(
          members,
          members.filter((inner) => inner.length > 0),
          fc.array(fc.boolean(), { maxLength: 8 }),
          fc.boolean(),
          (others, inner, escapes, inUpperCase) => {
            const [name] = inner[0] as readonly [string, unknown]
            const again = inUpperCase ? name.toUpperCase() : name
            fc.pre(folded(again) === folded(name))
            const doubled = text(inner, `${escaped(again, escapes)}:null`)
            expect(isAmbiguousJson(make(others, doubled))).to.equal(true)
          },
        ),
      )
    })

    it(`__proto__ and more than 64 members in ${place} are ambiguous`, () => {
      expect(isAmbiguousJson(make([], '{"__proto__":{}}'))).to.equal(true)
      const many = (count: number) => text(Array.from({ length: count }, (_, index) => [`m${index}`, index]))
      expect(isAmbiguousJson(make([], many(64)))).to.equal(false)
      expect(isAmbiguousJson(make([], many(65)))).to.equal(true)
    })
  }

  it('names that occur twice in arguments do not matter', () => {
    fc.assert(
      fc.property(members, fc.string(), (others, name) => {
        const twice = `{${JSON.stringify(name)}:1,${JSON.stringify(name)}:2}`
        expect(isAmbiguousJson(around(others, 'params', around(others, 'arguments', twice)))).to.equal(false)
      }),
    )
  })

  it('any text has an answer', () => {
    const piece = fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '\\',
      '"params"',
      '"ref"',
      '"a"',
      ' ',
      'null',
    )
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.array(piece).map((pieces) => pieces.join('')),
        ),
        (any) => {
          expect(isAmbiguousJson(any)).to.be.a('boolean')
        },
      ),
      { numRuns: 500 },
    )
  })
})
