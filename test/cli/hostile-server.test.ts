import { expect } from 'chai'
import fc from 'fast-check'
import { quote, quoteAll } from '../../cli/doctor/quote.ts'
import { Secrets } from '../../cli/doctor/secrets.ts'
import { look, startTarget } from '../support/cli/doctor-target.ts'

const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.webUrl(),
  fc.constantFrom('', 'x', null, [], [1], {}),
)

/** Generates a document with members of any type. */
const documentOf = (...members: string[]) =>
  fc.record(Object.fromEntries(members.map((name) => [name, anything])), { requiredKeys: [] })

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

describe('doctor, with a hostile server,', () => {
  it('reports findings without an internal error for any documents and responses', async function () {
    this.timeout(30_000)
    let said: { resource: object; issuer: object; result: unknown; challenge: string }
    const target = await startTarget({
      instead: ({ path, message, headers }) => {
        const json = { 'content-type': 'application/json' }
        if (path.startsWith('/.well-known/')) return { headers: json, body: JSON.stringify(said.resource) }
        if (headers.authorization === undefined)
          return { status: 401, headers: { 'www-authenticate': said.challenge } }
        const result = message?.method === 'initialize' ? { protocolVersion: '2025-11-25' } : said.result
        return { headers: json, body: JSON.stringify({ jsonrpc: '2.0', id: 1, result }) }
      },
      issuer: (document) => Object.assign(document, said.issuer),
    })
    const url = target.url.href
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          resource: fc
            .tuple(
              documentOf('resource', 'scopes_supported', 'bearer_methods_supported', 'authorization_servers'),
              fc.boolean(),
            )
            .map(([document, good]) =>
              good ? { ...document, resource: url, authorization_servers: [target.issuer] } : document,
            ),
          issuer: documentOf(
            'issuer',
            'authorization_endpoint',
            'token_endpoint',
            'registration_endpoint',
            'response_types_supported',
            'code_challenge_methods_supported',
          ),
          result: fc.oneof(
            anything,
            fc.record({ tools: fc.array(anything, { maxLength: 3 }), cacheScope: anything }),
          ),
          token: fc.oneof(
            fc.constant('some-token'),
            fc
              .tuple(documentOf('alg', 'typ'), documentOf('iss', 'aud', 'exp', 'nbf', 'scope', 'scp', 'cnf'))
              .map((parts) => `${parts.map((part) => encode(part)).join('.')}.c2lnbmF0dXJl`),
          ),
          challenge: fc.oneof(
            fc.constant(`Bearer resource_metadata="${url}/.well-known/x"`),
            fc.stringMatching(/^Bearer [ -~]{0,30}$/),
          ),
        }),
        async (given) => {
          said = given
          const { checks } = await look(target.url, { token: given.token, timeoutMs: 2000 })
          expect(checks.filter(({ seen }) => seen.includes('internal error in this check'))).to.deep.equal([])
          for (const { status, hint } of checks)
            expect(hint !== undefined).to.equal(status === 'warn' || status === 'fail')
        },
      ),
      { numRuns: 25 },
    )
  })

  it('quotes text on one line, without control characters, and shortened', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 400 }), (text) => {
        expect(quote(text)).not.to.match(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
        expect([...quote(text)].length).to.be.at.most(161)
      }),
    )
    expect(quoteAll(Array.from({ length: 20 }, (_, index) => String(index)))).to.match(/, 11 and 8 more$/)
  })

  it('removes secrets from its output', () => {
    const secret = fc.stringMatching(/^[\w\-.~+/=]{4,60}$/)
    fc.assert(
      fc.property(fc.array(secret, { minLength: 1, maxLength: 3 }), fc.array(fc.string()), (kept, around) => {
        const secrets = new Secrets()
        for (const one of kept) secrets.add(one)
        const text = kept
          .map((one, index) => `${around[index] ?? ''}${one}${encodeURIComponent(one)}`)
          .join('|')
        const erased = secrets.erase(text)
        for (const one of kept) if (!'[secret]'.includes(one)) expect(erased).not.to.contain(one)
      }),
    )
  })
})
