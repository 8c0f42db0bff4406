import { ResourceTemplate } from '@modelcontextprotocol/server'
import { expect } from 'chai'
import fc from 'fast-check'
import { canonicalUri, decodedOnce } from '../../../../src/mcp/router/uris/canonical-uri.ts'
import { matchTokens, type TemplateToken } from '../../../../src/mcp/router/uris/template-match.ts'
import { checkUriTemplate } from '../../../../src/mcp/router/uris/uri-template.ts'
import { linearMatch } from '../../../../src/mcp/sdk/uri-guard.ts'
import { runs } from '../../../support/runs.ts'

const PATTERNS = { simple: '[^/,]+', query: '[^&]+', any: '[^]+', list: '[^/,]+(?:,[^/,]+)*' } as const
const LAZY = { simple: '[^/,]+?', query: '[^&]+?', any: '[^]+?', list: '[^/,]+?(?:,[^/,]+?)*?' } as const

/** The reference: a regular expression, which backtracks. */
function matchByPattern(
  tokens: readonly TemplateToken[],
  text: string,
  prefer: 'first' | 'last',
): string[] | undefined {
  const patterns = prefer === 'first' ? LAZY : PATTERNS
  const source = tokens.map((token) =>
    typeof token === 'string' ? token.replace(/[.*+?^${}()|[\]\\]/g, '\\$&') : `(${patterns[token.kind]})`,
  )
  return new RegExp(`^${source.join('')}$`).exec(text)?.slice(1)
}

const ALPHABET = ['a', 'b', '-', '/', ',', '&', '.']
const text = (maxLength: number) => fc.string({ unit: fc.constantFrom(...ALPHABET), maxLength })
const token: fc.Arbitrary<TemplateToken> = fc.oneof(
  fc.string({ unit: fc.constantFrom(...ALPHABET), minLength: 1, maxLength: 3 }),
  fc.record({ kind: fc.constantFrom('simple', 'query', 'any', 'list') }),
)

describe('mcp: URI templates', () => {
  it('URI templates match the same URIs as a regular expression, with the same values', () => {
    fc.assert(
      fc.property(
        fc.array(token, { minLength: 1, maxLength: 6 }),
        text(12),
        fc.constantFrom('first', 'last'),
        (tokens, given, prefer) => {
          expect(matchTokens(tokens, given, prefer)).to.deep.equal(matchByPattern(tokens, given, prefer))
        },
      ),
      { numRuns: runs(5_000) },
    )
  })

  it('URI templates of the SDK match the same URIs as before when they match in linear time', () => {
    const expression = fc
      .tuple(fc.constantFrom('', '+', '.', '/', '?', '&', '#'), fc.constantFrom('', '*'), fc.boolean())
      .map(
        ([operator, star, two]) =>
          (index: number) =>
            `{${operator}v${index}${star}${two && '?&'.includes(operator) && operator !== '' ? `,w${index}` : ''}}`,
      )
    const part = fc.oneof(
      text(3).map((literal) => () => literal),
      expression,
    )
    fc.assert(
      fc.property(
        fc.array(part, { minLength: 1, maxLength: 5 }),
        fc.string({ unit: fc.constantFrom(...ALPHABET, '?', '#', 'v', 'w', '0', '1', '='), maxLength: 14 }),
        (parts, given) => {
          const template = `x:${parts.map((make, index) => make(index)).join('')}`
          const { uriTemplate } = new ResourceTemplate(template, { list: undefined })
          expect(linearMatch(uriTemplate as never)(`x:${given}`)).to.deep.equal(
            uriTemplate.match(`x:${given}`),
          )
        },
      ),
      { numRuns: runs(3_000) },
    )
  })

  for (const [template, uri, variables] of [
    ['log://{year}-{month}-{day}', 'log://2024-05-06', { year: '2024', month: '05', day: '06' }],
    ['log://{a}-{b}', 'log://x-y-z', { a: 'x', b: 'y-z' }],
    ['log://{a}-{b}', 'log://--', undefined],
    ['log://{a}-{b}', 'log://---', { a: '-', b: '-' }],
    ['log://{a}-{b}!', 'log://x-y!-z!', { a: 'x', b: 'y!-z' }],
    ['log://{name}.{ext}', 'log://x.tar.gz', { name: 'x', ext: 'tar.gz' }],
    ['log://{+path}/{id}', 'log://a/b/c', { path: 'a/b', id: 'c' }],
    ['log://{+path}/end', 'log://a/end/end', { path: 'a/end' }],
    ['log://{tags*}-{x}', 'log://a,b-c-d', { tags: ['a', 'b'], x: 'c-d' }],
    ['log://{tags*}', 'log://a,,b', undefined],
    ['log://{tags*},,{x}', 'log://a,,b', { tags: ['a'], x: 'b' }],
    ['log://{tags*},,{x}', 'log://a,b,,c', { tags: ['a', 'b'], x: 'c' }],
    ['log://{tags*},,{x}', 'log://a,,,b', undefined],
    ['log://{tags*},{x}', 'log://a,,b', undefined],
    ['log://{tags*},', 'log://a,b,', { tags: ['a', 'b'] }],
    ['log://{tags*},', 'log://a,b,,', undefined],
    ['log://{tags*}/{x}', 'log://a,b/c', { tags: ['a', 'b'], x: 'c' }],
    ['log://{tags*}{x}', 'log://a,b', undefined],
    ['log://x{/id}{.ext}', 'log://x/7.json', { id: '7', ext: 'json' }],
    ['log://{id}', 'log://a%2Fb', { id: 'a/b' }],
    ['log://{id}', 'log://%C0%AF', undefined],
    ['log://caf%c3%a9/{id}', 'log://caf%C3%A9/7', { id: '7' }],
    ['log://café/{id}', 'log://caf%C3%A9/7', { id: '7' }],
    ['LOG://a/./b/../{id}', 'log://a/7', { id: '7' }],
    ['https://{host}', 'https://example.com', { host: 'example.com' }],
    ['https://{host}/', 'https://example.com', { host: 'example.com' }],
    ['https://{+rest}', 'https://example.com/a/b', { rest: 'example.com/a/b' }],
    ['https://example.com{+path}', 'https://EXAMPLE.com:443', { path: '/' }],
    ['https://example.com{+path}{?q}', 'https://example.com/a?q=1', { path: '/a', q: '1' }],
    ['https://example.com{?q}', 'https://example.com?q=1', { q: '1' }],
    ['https://Bücher.example/{id}', 'https://xn--bcher-kva.example/7', { id: '7' }],
    ['https://example.com:{port}/{id}', 'https://example.com:8443/7', { port: '8443', id: '7' }],
    ['https://{tenant}.Example.com/{id}', 'https://ann.example.com/7', { tenant: 'ann', id: '7' }],
    ['file:///{+path}', 'file:///etc/passwd', { path: 'etc/passwd' }],
    ['file://{+path}', 'file:///etc/passwd', { path: '/etc/passwd' }],
    ['urn:isbn:{id}', 'URN:isbn:7', { id: '7' }],
    ['notes://{id}{?q}', 'notes://7', { id: '7' }],
    ['notes://{id}{?q}', 'notes://7?', { id: '7' }],
    ['notes://{id}{?q}', 'notes://7?q=', { id: '7', q: '' }],
    ['notes://{id}{?q}', 'notes://7?q', undefined],
    ['notes://{id}{?q}', 'notes://7?qq', undefined],
    ['notes://{id}{?q}', 'notes://7?=1', undefined],
    ['notes://{id}{?q}', 'notes://7?q=1&', undefined],
    ['notes://{id}{?q}', 'notes://7?q=1&q=2', undefined],
    ['notes://{id}{?q}', 'notes://7?id=8', undefined],
    ['notes://{id}{?q}', 'notes://7?q=1?2', { id: '7', q: '1?2' }],
    ['notes://{id}{?q*}', 'notes://7?q=1&q=2', { id: '7', q: ['1', '2'] }],
    ['notes://{id}{?q,r}', 'notes://7?r=1&q=2', { id: '7', q: '2', r: '1' }],
    ['notes://{id}{?q}{&r}', 'notes://7?r=1', { id: '7', r: '1' }],
    ['notes://{id}{?q,r}', 'notes://7?r=2', { id: '7', r: '2' }],
    ['notes://{id}{?q*}', 'notes://7?q=1', { id: '7', q: ['1'] }],
    ['notes://x{?q}', 'notes://x?q=a%26b%3D', { q: 'a&b=' }],
    ['notes://x{?q}', 'notes://x?q=%zz', undefined],
    ['notes://x{?q}', 'notes://xy?q=1', undefined],
    ['notes://{id}{?q}', 'notes://7/8?q=1', undefined],
    ['notes://{id}{?q}/x', 'notes://7/x', undefined],
    ['notes://{id}{?q}/x', 'notes://7?q=1/x', { id: '7', q: '1' }],
    ['notes://{id}{&q}', 'notes://7', undefined],
    ['notes://{id}{&q}', 'notes://7&q=1', { id: '7', q: '1' }],
    ['notes://all/{id}?fixed=1{&more}', 'notes://all/7?fixed=1&more=2', { id: '7', more: '2' }],
  ] as const) {
    it(`the URI template ${template} ${variables === undefined ? 'does not match' : 'matches'} ${uri}`, () => {
      expect(checkUriTemplate('test', template).match(canonicalUri(uri) as string)).to.deep.equal(variables)
    })
  }
})

describe('mcp: the length of a URI template', () => {
  it('a template of 8,192 characters is accepted, and a longer one is refused', () => {
    const template = (length: number) => `notes://{id}/${'x'.repeat(length - 13)}`
    expect(checkUriTemplate('test', template(8_192)).canonical).to.equal(template(8_192))
    expect(() => checkUriTemplate('test', template(8_193))).to.throw(/^uriTemplate of test /)
  })
})

describe('mcp: the length of a URI', () => {
  for (const template of ['notes://{id}', 'notes://{+path}'])
    it(`${template} matches a URI of 8,192 characters, and no longer one`, () => {
      const uriOf = (length: number) => `notes://${'x'.repeat(length - 8)}`
      const { match } = checkUriTemplate('test', template)
      expect(Object.values(match(uriOf(8_192)) ?? {})).to.deep.equal(['x'.repeat(8_184)])
      expect(match(uriOf(8_193))).to.equal(undefined)
    })
})

describe('mcp: the canonical form of a URI', () => {
  const hostile = fc.string({
    unit: fc.oneof(
      fc.constantFrom(
        '%',
        '/',
        '.',
        '..',
        '%2e',
        '%2E',
        '%25',
        '%7e',
        '%c3%a9',
        '%zz',
        '%3',
        '?',
        '#',
        '@',
        ':',
        '\\',
      ),
      fc.constantFrom('a', 'B', '2', 'e', 'é', '|', ' ', '\u{1F600}', '\uD800', '&', '='),
    ),
    maxLength: 25,
  })
  const uri = fc
    .tuple(
      fc.constantFrom(
        'notes://',
        'Files://h/',
        'https://',
        'https://h/',
        'file:///',
        'file://',
        'urn:',
        'a:/',
      ),
      hostile,
    )
    .map((parts) => parts.join(''))

  it('the canonical form of a URI is its own canonical form, is ASCII, and is equal to the result of the URL parser', () => {
    fc.assert(
      fc.property(uri, (given) => {
        const canonical = canonicalUri(given)
        fc.pre(canonical !== undefined)
        expect(canonicalUri(canonical)).to.equal(canonical)
        expect(new URL(canonical).href).to.equal(canonical)
        expect(canonical).to.match(/^[\x20-\x7E]*$/)
        expect(canonical).to.not.match(
          /(?<!%|%[0-9A-Fa-f])%(?:4[1-9A-F]|5[0-9A]|6[1-9A-F]|7[0-9AE]|3[0-9]|2[DE]|5F)/,
        )
      }),
      { numRuns: runs(5_000) },
    )
  })

  it('the canonical form of a URI decodes to the same string as the result of the URL parser', () => {
    fc.assert(
      fc.property(uri, (given) => {
        const canonical = canonicalUri(given)
        // A percent sign without two hex digits has no decoded form.
        fc.pre(canonical !== undefined && !/%(?![0-9A-Fa-f]{2})/.test(given) && !given.startsWith('file:'))
        expect(decodedOnce(canonical)).to.equal(decodedOnce(new URL(given).href))
      }),
      { numRuns: runs(2_000) },
    )
  })

  for (const [given, canonical] of [
    ['files://p%72ivate/salary', 'files://private/salary'],
    ['files://private%2fsalary', 'files://private%2Fsalary'],
    ['notes://café', 'notes://caf%C3%A9'],
    ['NOTES://Café/%7E', 'notes://Caf%C3%A9/~'],
    ['HTTPS://EXAMPLE.com:443', 'https://example.com/'],
    ['notes://a/b/../c', 'notes://a/c'],
    ['notes://a/%2e%2E/c', 'notes://a/c'],
    ['notes://a/%252e%252e/c', 'notes://a/%252e%252e/c'],
    ['notes://a/%%32%65', 'notes://a/%%32e'],
    ['notes://a/%zz', 'notes://a/%zz'],
    ['notes://a\tb', undefined],
    ['notes://a\u009Fb', undefined],
    ['a', undefined],
  ] as const) {
    it(`the canonical form of ${JSON.stringify(given)} is ${canonical ?? 'undefined, because the URI is rejected'}`, () =>
      expect(canonicalUri(given)).to.equal(canonical))
  }
})
