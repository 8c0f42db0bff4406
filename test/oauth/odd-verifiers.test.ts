import { inspect } from 'node:util'
import { expect } from 'chai'
import type { Decision } from '../../src/oauth/decision.ts'
import { Gate, type GateRequest } from '../../src/oauth/gate.ts'
import { RequestContext } from '../../src/oauth/inputs.ts'
import { resolveOAuthOptions, type VerifyToken } from '../../src/oauth/options.ts'
import { cachedVerifier } from '../../src/oauth/verifiers/cached.ts'
import { firstMatch } from '../../src/oauth/verifiers/first-match.ts'

/** A string that no response may contain. */
const LEAK = 'leak-of-another-user'

type Outcome = 'accepted' | 'invalid' | 'expired' | 'wrong_resource' | 'unavailable'
type Oddity = readonly [what: string, verify: (token: string) => unknown, outcome: Outcome]

const later = <T>(value: T): Promise<T> => new Promise((resolve) => setImmediate(resolve, value))
const never = new Promise<never>(() => undefined)
const thrower = (): never => {
  throw new Error(LEAK)
}
const good = (token: string) => ({ valid: true, user: { token }, scopes: [token], clientId: token })
/** An object that throws at every access. */
const hostile = new Proxy(
  {},
  Object.fromEntries(
    (['get', 'has', 'ownKeys', 'getOwnPropertyDescriptor', 'getPrototypeOf', 'set'] as const).map((trap) => [
      trap,
      thrower,
    ]),
  ),
)
function thenable(
  then: (resolve: (value: unknown) => void, reject: (reason: unknown) => void) => unknown,
): object {
  return Object.defineProperty({}, 'then', { value: then })
}

const ODDITIES: readonly Oddity[] = [
  ['throws', thrower, 'invalid'],
  ['rejects', async () => thrower(), 'invalid'],
  ['throws a text', () => Promise.reject(LEAK), 'invalid'],
  ['throws nothing', () => Promise.reject(undefined), 'invalid'],
  ['throws what throws', () => Promise.reject(hostile), 'invalid'],
  ['throws itself', (token) => Promise.reject(good(token)), 'invalid'],
  ['hangs', () => never, 'unavailable'],
  ['hangs as a thenable', () => thenable(() => undefined), 'unavailable'],
  ['promises what hangs', async () => await thenable(() => undefined), 'unavailable'],
  ['gives what throws', () => hostile, 'invalid'],
  ['promises what throws', async () => hostile, 'invalid'],
  ['sends a text', () => LEAK, 'invalid'],
  ['sends a text as an object', () => Object(LEAK), 'invalid'],
  ['sends a function', () => () => ({ valid: true }), 'invalid'],
  ['sends a symbol', () => Symbol(LEAK), 'invalid'],
  ['sends a list of acceptances', (token) => [good(token)], 'invalid'],
  ['gives valid of its prototype', () => Object.create({ valid: true }), 'accepted'],
  ['gives valid: 1', () => ({ valid: 1 }), 'invalid'],
  ['gives nothing', () => undefined, 'invalid'],
  ['gives null', () => null, 'invalid'],
  ['gives true', () => true, 'invalid'],
  ['gives an object without members', () => ({}), 'invalid'],
  ['gives valid: false with a user', () => ({ valid: false, user: { id: 1 } }), 'invalid'],
  ['gives valid: "true"', () => ({ valid: 'true' }), 'invalid'],
  ['gives valid as an object', () => ({ valid: Object(true) }), 'invalid'],
  ['gives valid as a promise', () => ({ valid: Promise.resolve(true) }), 'invalid'],
  [
    'gives a client that cannot be a string',
    () => ({ valid: true, clientId: Object.create(null) }),
    'invalid',
  ],
  ['gives an expiry in 1970', () => ({ valid: true, expiresAt: 0 }), 'expired'],
  ['gives an expiry before 1970', () => ({ valid: true, expiresAt: -1 }), 'expired'],
  ['gives an expiry that is NaN', () => ({ valid: true, expiresAt: Number.NaN }), 'invalid'],
  [
    'gives an expiry that is infinite',
    () => ({ valid: true, expiresAt: Number.POSITIVE_INFINITY }),
    'invalid',
  ],
  ['gives an expiry that is a string', () => ({ valid: true, expiresAt: String(Date.now()) }), 'invalid'],
  [
    'gives an expiry that is a date',
    () => ({ valid: true, expiresAt: new Date(Date.now() + 60_000) }),
    'invalid',
  ],
  [
    'throws an error that is only named like VerifierUnavailableError',
    () => Promise.reject(Object.assign(new Error(LEAK), { name: 'VerifierUnavailableError' })),
    'invalid',
  ],
  [
    'has a getter that throws',
    () => Object.defineProperty({ valid: true }, 'scopes', { get: thrower }),
    'invalid',
  ],
  [
    'settles twice',
    (token) => thenable((resolve) => [resolve(good(token)), resolve({ valid: false })]),
    'accepted',
  ],
  ['settles, then throws', (token) => thenable((resolve) => [resolve(good(token)), thrower()]), 'accepted'],
  [
    'rejects, then settles',
    (token) => thenable((resolve, reject) => [reject(LEAK), resolve(good(token))]),
    'invalid',
  ],
  [
    'promises a thenable of a thenable',
    async (token) => thenable((resolve) => resolve(thenable((then) => then(good(token))))),
    'accepted',
  ],
  ['expires with a lie', (token) => ({ ...good(token), expiresAt: 1 }), 'expired'],
  [
    'means another resource',
    (token) => ({ ...good(token), resource: 'https://other.example.com' }),
    'wrong_resource',
  ],
  [
    'sends a resource that cannot be a string',
    (token) => ({ ...good(token), resource: Object.create(null) }),
    'invalid',
  ],
  [
    'gives ten megabytes of user',
    (token) => ({ ...good(token), user: { token, text: 'x'.repeat(10_000_000) } }),
    'accepted',
  ],
  [
    'sends a hundred thousand scopes',
    (token) => ({ ...good(token), scopes: [token, ...Array(100_000).fill('x')] }),
    'accepted',
  ],
  [
    'sends a user in a circle',
    (token) => {
      const user: object = { token }
      return { ...good(token), user: Object.assign(user, { user }) }
    },
    'accepted',
  ],
  ['sends a user that throws when looked into', (token) => ({ ...good(token), user: hostile }), 'accepted'],
  ['gives extra that throws when copied', (token) => ({ ...good(token), extra: hostile }), 'invalid'],
]

describe('a verifier that', () => {
  const unhandled: unknown[] = []
  const note = (reason: unknown): void => {
    unhandled.push(reason)
  }
  before(() => process.on('unhandledRejection', note))
  after(() => process.off('unhandledRejection', note))

  function requestWith(token: string): GateRequest {
    return {
      authorization: `Bearer ${token}`,
      get request() {
        return new Request('https://mcp.example.com/mcp')
      },
      method: 'POST',
      origin: 'https://mcp.example.com',
      path: '/mcp',
    }
  }

  function gateOn(verifyToken: VerifyToken<any, any>, verifyTimeoutMs: number): Gate {
    const options = { issuer: 'https://auth.example.com', resource: 'https://mcp.example.com/mcp' }
    return new Gate(
      resolveOAuthOptions({ ...options, verifyToken, verifyTimeoutMs }),
      [],
      (request) => new RequestContext(request, {}),
    )
  }

  function outcomeOf(decision: Decision): string {
    return decision.outcome === 'refused' ? decision.reason : decision.outcome
  }

  const wrappings: Readonly<Record<string, (verify: VerifyToken<any, any>) => VerifyToken<any, any>>> = {
    alone: (verify) => verify,
    'behind firstMatch': (verify) => firstMatch(async () => undefined, verify),
    'behind cachedVerifier': (verify) => cachedVerifier(verify),
  }
  for (const [where, wrap] of Object.entries(wrappings)) {
    for (const [what, odd, outcome] of ODDITIES) {
      it(`a verifier that ${what} gets ${outcome}, ${where}, and does not affect other requests`, async () => {
        const verifyToken = wrap((({ bearerToken }) =>
          bearerToken?.startsWith('odd')
            ? odd(bearerToken)
            : later(good(bearerToken as string))) as VerifyToken)
        const gate = gateOn(verifyToken, outcome === 'unavailable' ? 200 : 10_000)
        const tokens = ['odd', 'a', 'b', 'odd', 'a', 'c', 'odd2', 'b']
        const decisions = await Promise.all(tokens.map((token) => gate.authenticate(requestWith(token))))
        for (const [index, decision] of decisions.entries()) {
          const token = tokens[index] as string
          if (token.startsWith('odd')) {
            expect(outcomeOf(decision)).to.equal(outcome)
            if (decision.outcome === 'accepted') expect(decision.auth.token).to.equal(token)
            else expect(inspect(gate.responseTo(decision, requestWith(token)))).not.to.include(LEAK)
          } else {
            expect(decision.outcome).to.equal('accepted')
            const { auth } = decision as Extract<Decision, { outcome: 'accepted' }>
            expect({ ...auth, token: auth.token }).to.deep.equal({
              token,
              clientId: token,
              scopes: [token],
              user: { token },
              extra: {},
            })
          }
        }
        await later(undefined)
        expect(unhandled).to.deep.equal([])
      })
    }
  }

  it('a verifier that settles after the timeout has no effect', async () => {
    const late: (() => void)[] = []
    const gate = gateOn(
      ({ bearerToken }) => new Promise((resolve) => late.push(() => resolve(good(bearerToken as string)))),
      50,
    )
    const decision = await gate.authenticate(requestWith('t'))
    expect(decision.outcome).to.equal('unavailable')
    for (const answer of late) answer()
    await later(undefined)
    expect(decision.outcome).to.equal('unavailable')
  })

  it('a verifier that writes to its input affects neither other requests nor the gate', async () => {
    const seen: unknown[] = []
    const gate = gateOn(async (input) => {
      seen.push((input as { mark?: unknown }).mark)
      for (const [member, value] of [
        ['mark', LEAK],
        ['bearerToken', 'other'],
      ] as const)
        Reflect.set(input, member, value)
      await later(undefined)
      return { valid: true }
    }, 10_000)
    const decisions = await Promise.all(['a', 'b'].map((token) => gate.authenticate(requestWith(token))))
    expect(seen).to.deep.equal([undefined, undefined])
    expect(decisions.map((decision) => (decision as { auth?: { token: string } }).auth?.token)).to.deep.equal(
      ['a', 'b'],
    )
  })
})
