import { isJsonContentType as isJsonForTheSdk } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import fc from 'fast-check'
import { isJsonContentType } from '../../../src/mcp/wire/body-budget.ts'

describe('mcp/wire: isJsonContentType', () => {
  for (const [header, expected] of [
    ['application/json', true],
    ['Application/JSON; charset=utf-8', true],
    ['application/json;', true],
    ['application/json; charset=', true],
    ['application/json; a="x,y"', true],
    ['application/json; a="\\","', true],
    ['application/json; a=b, text/plain', false],
    ['application/json, text/plain', false],
    ['text/plain; a=application/json', false],
    ['text/plain;application/json', false],
    ['application/jsonp', false],
    ['', false],
    [null, false],
  ] as const) {
    it(`isJsonContentType is ${expected} for ${header}, as for the SDK`, () => {
      expect(isJsonContentType(header)).to.equal(expected)
      expect(isJsonForTheSdk(header)).to.equal(expected)
    })
  }

  it('isJsonContentType reads any header as the SDK does', () => {
    const parts = fc.constantFrom(
      'application/json',
      'APPLICATION/json',
      'text/plain',
      ';',
      ',',
      ' ',
      '=',
      '"',
      '\\',
      'a',
      '\t',
      '\n',
      'é',
    )
    const header = fc.array(parts, { maxLength: 12 }).map((some) => some.join(''))
    const json = header.map((rest) => `application/json${rest}`)
    fc.assert(
      fc.property(fc.oneof(header, json), (text) => isJsonContentType(text) === isJsonForTheSdk(text)),
      { numRuns: process.env.FULL_RUNS === '1' ? 20_000 : 4_000 },
    )
  })
})
