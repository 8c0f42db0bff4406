import { expect } from 'chai'
import { cachedVerifier, introspectionVerifier, jwtVerifier, type VerifyToken } from '../../src/index.ts'
import { actorOf } from '../../src/oauth/actor.ts'
import { readVerification } from '../../src/oauth/verification.ts'
import { listen } from '../support/listen.ts'
import { AUDIENCE, createSigningKey, ISSUER, type SigningKey, signToken } from '../support/tokens.ts'
import { verifyInput } from '../support/verify-input.ts'

const MAX = 'a'.repeat(1_024)

/** Returns an `act` with a chain of this many actors. */
function chain(length: number): object {
  return { sub: String(length), ...(length > 1 && { act: chain(length - 1) }) }
}

describe('actorOf()', () => {
  for (const [what, act, expected] of [
    ['no claim as no actor', undefined, undefined],
    ['null as no actor', null, undefined],
    ['the subject of an actor', { sub: 'a' }, { sub: 'a' }],
    ['the client of an actor without a subject', { client_id: 'c' }, { client_id: 'c' }],
    [
      'subject, issuer, and client, and leaves out other members',
      { sub: 'a', iss: 'https://a', client_id: 'c', aud: 'x', scope: 'y' },
      { sub: 'a', iss: 'https://a', client_id: 'c' },
    ],
    ['null members as absent', { sub: null, iss: null, client_id: 'c', act: null }, { client_id: 'c' }],
    ['names of 1,024 characters', { sub: MAX }, { sub: MAX }],
    ['a chain of two', { sub: 'a', act: { sub: 'b' } }, { sub: 'a', act: { sub: 'b' } }],
    ['a chain up to an actor that cannot be read', { sub: 'a', act: { sub: 5 } }, { sub: 'a' }],
    ['a chain up to an actor that is a string', { sub: 'a', act: 'b' }, { sub: 'a' }],
    [
      'the first four actors of a longer chain',
      chain(9),
      { sub: '9', act: { sub: '8', act: { sub: '7', act: { sub: '6' } } } },
    ],
    ['the first four actors of a very long chain', chain(5_000), actorOf(chain(5_000))],
    ['a string as unreadable', 'a', null],
    ['an array as unreadable', [{ sub: 'a' }], null],
    ['an empty object as unreadable', {}, null],
    ['an actor with only an issuer as unreadable', { iss: 'https://a' }, null],
    ['an actor with only an earlier one as unreadable', { act: { sub: 'a' } }, null],
    ['an empty subject as unreadable', { sub: '' }, null],
    ['a subject that is a number as unreadable', { sub: 5 }, null],
    ['an issuer that is an object as unreadable', { sub: 'a', iss: {} }, null],
    ['a client that is a boolean as unreadable', { sub: 'a', client_id: true }, null],
    ['a subject of 1,025 characters as unreadable', { sub: `${MAX}a` }, null],
  ] as const) {
    it(`actorOf() reads ${what}`, () => {
      expect(actorOf(act)).to.deep.equal(expected)
    })
  }
})

describe('the actor of a token of a verifier', () => {
  let key: SigningKey
  before(async () => {
    key = await createSigningKey('ES256', 'one')
  })

  /** The verifiers, which accept a token with this `act`. */
  const verifiers: Readonly<Record<string, (act: unknown) => Promise<VerifyToken<any, any>>>> = {
    jwtVerifier: async () =>
      jwtVerifier({ issuer: ISSUER, audience: AUDIENCE, publicKey: { keys: [key.jwk] } }),
    introspectionVerifier: async (act) => {
      const { origin } = await listen((_req, res) => {
        res.setHeader('Content-Type', 'application/json')
        res.end(JSON.stringify({ active: true, aud: AUDIENCE, sub: 'ada', act }))
      })
      return introspectionVerifier({
        endpoint: `${origin}/introspect`,
        clientId: 'a',
        clientSecret: 'not a real secret',
        audience: AUDIENCE,
      })
    },
    'a function of the application': async (act) => () => ({
      valid: true,
      act: act as Record<string, unknown>,
    }),
  }

  for (const [name, create] of Object.entries(verifiers)) {
    for (const cached of [false, true]) {
      for (const [what, act, expected] of [
        ['an actor', { sub: 'agent', act: { sub: 'chat' } }, { sub: 'agent', act: { sub: 'chat' } }],
        ['no actor', undefined, undefined],
        ['an actor that cannot be read', 'agent', 'type'],
      ] as const) {
        it(`${name}${cached ? ' in cachedVerifier' : ''}: a token with ${what}`, async () => {
          const verify = await create(act)
          const verifyToken = cached ? cachedVerifier(verify) : verify
          const token = await signToken(key, { act })
          for (const _request of ['first', 'second']) {
            const result = await verifyToken(verifyInput(token))
            const verification = { token, resource: undefined } as Parameters<typeof readVerification>[1]
            const read = readVerification(result, verification, 'gate:x') as {
              act?: object
              invalidCause?: string
            }
            expect(read?.act ?? read?.invalidCause).to.deep.equal(expected)
          }
        })
      }
    }
  }
})
