import { expect } from 'chai'
import { canonicalTemplate } from '../../../../src/mcp/router/uris/canonical-template.ts'

describe('canonicalTemplate()', () => {
  for (const [template, text, literals] of [
    ['notes://{owner}/{id}', 'notes://{owner}/{id}', ['notes://', '/', '']],
    [
      'HTTPS://Example.com/%7Ea/{id}.json',
      'https://example.com/~a/{id}.json',
      ['https://example.com/~a/', '.json'],
    ],
    ['notes://a{/rest*}{?q,page}', 'notes://a{/rest*}{?q,page}', ['notes://a', '', '']],
    ['notes://{+all}', 'notes://{+all}', ['notes://', '']],
    ['notes://plain', 'notes://plain', ['notes://plain']],
  ] as const) {
    it(`canonicalTemplate() returns ${text} for ${template}`, () => {
      expect(canonicalTemplate(template)).to.deep.equal({
        text,
        literals,
        expressions: template.match(/\{[^{}]*\}/g) ?? [],
      })
    })
  }

  it('canonicalTemplate() returns undefined for an expression next to a dot segment', () => {
    expect(canonicalTemplate('notes://a/{id}/../b')).to.equal(undefined)
  })
})
