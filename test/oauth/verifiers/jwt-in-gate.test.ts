import { expect } from 'chai'
import { protectedResourceRouter } from '../../../src/express/protected-resource-router.ts'
import { cachedVerifier, firstMatch, jwtVerifier, KitMcpRouter, mcpAuth } from '../../../src/index.ts'
import { createMcpAdapter, KitMcpServer } from '../../../src/mcp/adapter.ts'
import type { OAuthOptions, VerifyToken } from '../../../src/oauth/options.ts'
import type { JwtVerifierOptions } from '../../../src/oauth/verifiers/jwt-options.ts'
import { shareInvalidations } from '../../../src/redis/share-invalidations.ts'
import { expectConfigError, expectConfigRejection } from '../../support/config-error.ts'
import { gatedApp } from '../../support/gate-app.ts'
import { listen } from '../../support/listen.ts'
import {
  AUDIENCE,
  type ClaimChanges,
  createSigningKey,
  type KeyServer,
  type SigningKey,
  signToken,
  startKeyServer,
  verifyInput,
} from '../../support/tokens.ts'

const OTHER_RESOURCE = 'https://other.example.com/mcp'

const INVALID = 'MCP_CONFIG_INVALID_OPTION'
const MISSING = 'MCP_CONFIG_MISSING_OPTION'

const refuses: VerifyToken = async () => undefined

/** A Redis client that responds to every command with nothing. */
const redis = {
  publish: async () => 0,
  subscribe: async () => 0,
  unsubscribe: async () => 0,
  quit: async () => {},
  on() {},
  off() {},
  duplicate: () => redis,
}

/** Every way in which a verifier of this package, or a function of the application, passes a request on. */
const WAYS: readonly {
  readonly name: string
  readonly wrap: (verifier: VerifyToken<any, any>) => VerifyToken<any, any>
  /** The gate does not see the verifier, so wrong options show at the first request. */
  readonly hidden?: true
}[] = [
  { name: 'jwtVerifier()', wrap: (verifier) => verifier },
  { name: 'cachedVerifier(jwtVerifier())', wrap: (verifier) => cachedVerifier(verifier) },
  { name: 'firstMatch(other, jwtVerifier())', wrap: (verifier) => firstMatch(refuses, verifier) },
  {
    name: 'cachedVerifier(firstMatch(jwtVerifier(), other))',
    wrap: (verifier) => cachedVerifier(firstMatch(verifier, refuses)),
  },
  {
    name: 'firstMatch(cachedVerifier(jwtVerifier()))',
    wrap: (verifier) => firstMatch(cachedVerifier(verifier)),
  },
  {
    name: 'shareInvalidations(cachedVerifier(jwtVerifier()))',
    wrap: (verifier) => shareInvalidations(cachedVerifier(verifier), redis as never),
  },
  {
    name: 'a function that calls jwtVerifier()',
    wrap: (verifier) => async (input) => await verifier(input),
    hidden: true,
  },
  {
    name: 'a function that calls jwtVerifier() with a copy of its input',
    wrap: (verifier) => async (input) => await verifier({ ...input }),
    hidden: true,
  },
]

describe('jwtVerifier() inside a gate', () => {
  let key: SigningKey
  let issuer: KeyServer
  let otherIssuer: KeyServer

  before(async () => {
    key = await createSigningKey('ES256', 'ec-1')
  })

  beforeEach(async () => {
    const documents = (origin: string) => ({
      '/.well-known/oauth-authorization-server': { issuer: origin, jwks_uri: `${origin}/jwks` },
    })
    issuer = await startKeyServer([key], documents)
    otherIssuer = await startKeyServer([key], documents)
  })

  const gate = (verifyToken: VerifyToken<any, any>, changes: Partial<OAuthOptions> = {}): OAuthOptions => ({
    issuer: issuer.origin,
    resource: AUDIENCE,
    verifyToken,
    ...changes,
  })

  /** The status of a request with such a token to a server behind a gate. */
  async function statusFor(options: OAuthOptions, claims: ClaimChanges = {}): Promise<number> {
    const { origin } = await listen(gatedApp(options))
    const token = await signToken(key, { iss: issuer.origin, ...claims })
    const response = await fetch(`${origin}/mcp`, { headers: { authorization: `Bearer ${token}` } })
    return response.status
  }

  for (const { name, wrap } of WAYS) {
    const tokens: readonly (readonly [token: string, claims: () => ClaimChanges, status: number])[] = [
      ['a token of the gate for its resource', () => ({}), 200],
      ['a token for several audiences, one of them the resource', () => ({ aud: ['a', AUDIENCE] }), 200],
      ['a token of another issuer', () => ({ iss: otherIssuer.origin }), 401],
      ['a token for another resource', () => ({ aud: OTHER_RESOURCE }), 401],
      ['a token for a path below the resource', () => ({ aud: `${AUDIENCE}/x` }), 401],
      ['a token without an audience', () => ({ aud: undefined }), 401],
      ['an expired token', () => ({ exp: 1 }), 401],
    ]
    for (const [token, claims, status] of tokens) {
      it(`${name} without options responds with ${status} to ${token}`, async () => {
        expect(await statusFor(gate(wrap(jwtVerifier())), claims())).to.equal(status)
      })
    }

    it(`${name} without options gives the reason wrong_resource to the challenge`, async () => {
      const { origin } = await listen(gatedApp(gate(wrap(jwtVerifier()))))
      const token = await signToken(key, { iss: issuer.origin, aud: OTHER_RESOURCE })
      const response = await fetch(`${origin}/mcp`, { headers: { authorization: `Bearer ${token}` } })
      expect(response.headers.get('www-authenticate')).to.include(
        'The access token was issued for another resource',
      )
    })
  }

  describe('with some options', () => {
    const ofOther = () => ({ iss: otherIssuer.origin })
    const ownIssuer = () => ({ issuer: otherIssuer.origin })
    const bothIssuers = () => ({ issuers: [otherIssuer.origin, issuer.origin] })
    const ownAudience = () => ({ audience: 'notes-api' })
    const cases: readonly (readonly [
      verifier: string,
      own: () => JwtVerifierOptions,
      token: string,
      claims: () => ClaimChanges,
      status: number,
    ])[] = [
      ['its own issuer', ownIssuer, 'a token of its issuer', ofOther, 200],
      ['its own issuer', ownIssuer, "a token of the gate's issuer", () => ({}), 401],
      [
        'its own issuer',
        ownIssuer,
        'a token of its issuer for another resource',
        () => ({ ...ofOther(), aud: OTHER_RESOURCE }),
        401,
      ],
      ['its own list of issuers', bothIssuers, 'a token of the first', ofOther, 200],
      ['its own list of issuers', bothIssuers, 'a token of the second', () => ({}), 200],
      ['its own audience', ownAudience, 'a token for its audience', () => ({ aud: 'notes-api' }), 200],
      ['its own audience', ownAudience, 'a token for the resource of the gate', () => ({}), 401],
      [
        'its own audience',
        ownAudience,
        'a token of another issuer for its audience',
        () => ({ ...ofOther(), aud: 'notes-api' }),
        401,
      ],
      ['its own resource', () => ({ resource: AUDIENCE }), 'a token for it', () => ({}), 200],
      ['its own jwksUri', () => ({ jwksUri: issuer.jwksUri }), 'a token of the gate', () => ({}), 200],
      ['its own key', () => ({ publicKey: key.jwk }), 'a token of the gate', () => ({}), 200],
      ['its own key', () => ({ publicKey: key.jwk }), 'a token of another issuer', ofOther, 401],
      ['a required claim', () => ({ requiredClaims: ['email'] }), 'a token without it', () => ({}), 401],
    ]
    for (const [verifier, own, token, claims, status] of cases) {
      it(`a verifier with ${verifier} responds with ${status} to ${token}`, async () => {
        expect(await statusFor(gate(jwtVerifier(own())), claims())).to.equal(status)
      })
    }

    it('a token of a second authorization server of the gate is rejected with 401', async () => {
      const authorizationServers = [issuer.origin, otherIssuer.origin]
      const options = gate(jwtVerifier(), { authorizationServers })
      expect(await statusFor(options, { iss: otherIssuer.origin })).to.equal(401)
      expect(await statusFor(options)).to.equal(200)
    })
  })

  describe('used alone', () => {
    const cases: readonly (readonly [
      name: string,
      options: JwtVerifierOptions | undefined,
      option: string,
    ])[] = [
      ['without options', undefined, 'issuer'],
      ['with empty options', {}, 'issuer'],
      ['without an issuer', { audience: AUDIENCE }, 'issuer'],
      ['without an audience', { issuer: 'https://auth.example.com' }, 'audience'],
      ['with options that are undefined', { issuer: undefined, audience: undefined }, 'issuer'],
    ]
    for (const [name, options, option] of cases) {
      for (const { name: way, wrap } of WAYS) {
        it(`${way} ${name} rejects with a configuration error when it is first asked`, async () => {
          const verify = wrap(jwtVerifier(options))
          const token = await signToken(key)
          for (const input of [verifyInput(token), verifyInput(token)]) {
            const asked = (async () => await verify(input))()
            await expectConfigRejection(asked, { code: MISSING, option, message: /gate/ })
          }
        })
      }
    }

    it('a verifier that is used alone rejects with a configuration error without a token, too', async () => {
      const asked = jwtVerifier()(verifyInput(undefined))
      await expectConfigRejection(asked, {
        code: MISSING,
        option: 'issuer',
        message: /mcp-gatekit explain jwtverifier/,
      })
    })
  })

  describe('used by two gates', () => {
    for (const { name, wrap, hidden } of WAYS) {
      const changes: readonly (readonly [what: string, changes: () => Partial<OAuthOptions>])[] = [
        ['another issuer', () => ({ issuer: otherIssuer.origin })],
        ['another resource', () => ({ resource: OTHER_RESOURCE })],
        ['the same issuer and resource', () => ({})],
      ]
      for (const [what, change] of changes) {
        if (hidden) {
          it(`${name} without an issuer rejects every token of a second gate with ${what}`, async () => {
            const verifyToken = wrap(jwtVerifier())
            expect(await statusFor(gate(verifyToken))).to.equal(200)
            const second = gate(verifyToken, change())
            const claims = { iss: second.issuer, aud: second.resource }
            expect(await statusFor(second, claims)).to.equal(401)
            expect(await statusFor(second)).to.equal(401)
          })
          continue
        }
        it(`${name} without an issuer is a configuration error of a second gate with ${what}`, () => {
          const verifyToken = wrap(jwtVerifier())
          mcpAuth(gate(verifyToken))
          for (const audience of [undefined, AUDIENCE]) {
            const own = wrap(jwtVerifier({ audience }))
            mcpAuth(gate(own))
            expectConfigError(() => mcpAuth(gate(own, change())), {
              code: INVALID,
              option: 'issuer',
              message: /two gates/,
            })
          }
        })
      }

      it(`${name} with an issuer checks the resource of each of two gates`, async () => {
        const verifyToken = wrap(jwtVerifier({ issuer: issuer.origin }))
        const [one, other] = [gate(verifyToken), gate(verifyToken, { resource: OTHER_RESOURCE })]
        for (let round = 0; round < 2; round++) {
          expect(await statusFor(one)).to.equal(200)
          expect(await statusFor(one, { aud: OTHER_RESOURCE })).to.equal(401)
          expect(await statusFor(other)).to.equal(401)
          expect(await statusFor(other, { aud: OTHER_RESOURCE })).to.equal(200)
        }
        expect(issuer.asked.filter((path) => path === '/jwks')).to.have.length(1)
      })
    }

    it('a cached acceptance of one gate is not the outcome of a gate with another issuer', async () => {
      const verify = jwtVerifier()
      const verifyToken = cachedVerifier(async (input) => await verify(input))
      const token = await signToken(key, { iss: issuer.origin })
      const statuses: number[] = []
      for (const options of [gate(verifyToken), gate(verifyToken, { issuer: otherIssuer.origin })]) {
        const { origin } = await listen(gatedApp(options))
        const response = await fetch(`${origin}/mcp`, { headers: { authorization: `Bearer ${token}` } })
        statuses.push(response.status)
      }
      expect(statuses).to.deep.equal([200, 401])
    })

    it('one options object for mcpAuth and protectedResourceRouter is one gate', async () => {
      const options = gate(jwtVerifier())
      protectedResourceRouter(options)
      mcpAuth(options)
      expect(await statusFor(options)).to.equal(200)
    })
  })

  describe('without a fixed resource', () => {
    const resources: readonly (readonly [name: string, resource: OAuthOptions['resource']])[] = [
      ['without resource', undefined],
      ['with a function as resource', () => AUDIENCE],
    ]
    for (const [name, resource] of resources) {
      for (const { name: way, wrap, hidden } of WAYS) {
        if (hidden) {
          it(`${way} without an audience rejects every token of a gate ${name}`, async () => {
            expect(await statusFor(gate(wrap(jwtVerifier()), { resource }))).to.equal(401)
          })
          continue
        }
        it(`${way} without an audience is a configuration error of a gate ${name}`, () => {
          const router = KitMcpRouter.create()
          for (const own of [{}, { issuer: issuer.origin }]) {
            const makers = [
              (oauth: OAuthOptions) => mcpAuth(oauth),
              (oauth: OAuthOptions) => protectedResourceRouter(oauth),
              (oauth: OAuthOptions) => createMcpAdapter({ router, oauth }),
              (oauth: OAuthOptions) => KitMcpServer.create().router(router).withOAuth(oauth).build(),
            ]
            for (const make of makers) {
              const oauth = gate(wrap(jwtVerifier(own)), { resource })
              expectConfigError(() => make(oauth), {
                code: MISSING,
                option: 'audience',
                message: /of the gate/,
              })
            }
          }
        })
      }

      it(`a verifier with an audience uses the issuer of a gate ${name}`, async () => {
        const make = () => gate(jwtVerifier({ audience: AUDIENCE }), { resource })
        expect(await statusFor(make())).to.equal(200)
        expect(await statusFor(make(), { iss: otherIssuer.origin })).to.equal(401)
      })
    }
  })

  it('an issuer on http that is not loopback needs allowInsecureHttp of the verifier', () => {
    const changes = { issuer: 'http://auth.internal', allowInsecureHttp: true }
    expectConfigError(() => mcpAuth(gate(jwtVerifier(), changes)), {
      code: INVALID,
      option: 'issuer',
      message: /allowInsecureHttp/,
    })
    mcpAuth(gate(jwtVerifier({ allowInsecureHttp: true }), changes))
  })

  it('an adapter serves a tool call with a token that its own verifier accepts', async () => {
    const router = KitMcpRouter.create().tool('ping', { description: 'Responds.' }, () => 'pong')
    const { server } = createMcpAdapter({ router, oauth: gate(jwtVerifier()) })
    const call = async (claims: ClaimChanges) => {
      const token = await signToken(key, { iss: issuer.origin, ...claims })
      return await server(
        new Request(AUDIENCE, {
          method: 'POST',
          headers: {
            authorization: `Bearer ${token}`,
            accept: 'application/json, text/event-stream',
            'content-type': 'application/json',
          },
          body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'ping' } }),
        }),
      )
    }
    const response = await call({})
    expect(response.status).to.equal(200)
    expect(await response.text()).to.include('pong')
    expect((await call({ aud: OTHER_RESOURCE })).status).to.equal(401)
  })
})
