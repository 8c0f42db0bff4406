import { expect } from 'chai'
import { findLeaks } from '../../examples/records.ts'

const TOKEN = 'eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhZGEifQ.c2lnbmF0dXJl'

describe('the search for secrets in records', () => {
  const search = (text: string) =>
    findLeaks(text, [TOKEN, 'a-code-of-the-run', 'a.verifier~with-dots'], ['ada@example.com'])

  it('the search finds no secret in a clean record', () => {
    expect(
      search('{"reason":"missing","hint":"send Authorization: Bearer <token>","email":"a-hash"}'),
    ).to.deep.equal([])
  })

  for (const [what, text] of [
    ['a token', `{"a":"${TOKEN}"}`],
    ['the payload of a token', '{"a":"eyJzdWIiOiJhZGEifQ"}'],
    ['a code', '{"a":"x a-code-of-the-run y"}'],
    ['an email address in any case', '{"a":"Ada@Example.com"}'],
    ['an Authorization value with an unknown token', '{"a":"bearer something-unknown"}'],
  ] as const) {
    it(`the search finds ${what}`, () => {
      expect(search(text)).to.have.length(1)
    })
  }
})
