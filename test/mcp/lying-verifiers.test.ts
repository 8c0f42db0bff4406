import { inspect } from 'node:util'
import { expect } from 'chai'
import { cachedVerifier, firstMatch, KitMcpRouter, type VerifyTokenInput } from '../../src/index.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import type { VerifiedToken, VerifyToken } from '../../src/oauth/options.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { ENTRY_POINTS, type EntryPoint, serving } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy } from '../support/mcp/wire.ts'
import { keepingEvents } from '../support/telemetry/recording.ts'

const TOKEN = 'eyJ0b2tlbi1vZi1hZGE.c2VjcmV0LXBhcnQ.c2lnbmF0dXJl'
const SECRET = 'what-the-verifier-knows'

const shouting = (): never => {
  throw Object.assign(new Error(`${SECRET}: ${TOKEN}`), { token: TOKEN, cause: new Error(TOKEN) })
}

/** An object that `await` takes for a promise. */
function thenable(
  then: (resolve: (value: unknown) => void, reject: (reason: unknown) => void) => void,
): object {
  const key = 'then'
  return { [key]: then }
}

/** An object that throws at every access. */
const hostile = new Proxy(
  {},
  {
    get: shouting,
    has: shouting,
    ownKeys: shouting,
    getOwnPropertyDescriptor: shouting,
    getPrototypeOf: shouting,
  },
)

/** Not valid at the first look, valid at the second. */
function changing(): object {
  let looks = 0
  return {
    get valid() {
      return looks++ > 0
    },
  }
}

interface Verifier {
  readonly says: string
  readonly verify: (input: VerifyTokenInput) => unknown
  readonly status: number
  /** The expected telemetry, without any text of the verifier. */
  readonly event: string
  readonly reason?: string
}

const refused = { status: 401, event: 'kit.mcp.auth.refused', reason: 'invalid' } as const
const accepted = { status: 200, event: 'kit.mcp.auth.accepted' } as const
const unavailable = { status: 503, event: 'kit.mcp.auth.unavailable' } as const

const circle: Record<string, unknown> = { id: 'u1' }
circle.user = circle

/** A good result, but for one member. */
const good = (changes: object): VerifiedToken => ({ valid: true, scopes: ['mcp:read'], ...changes })

/** The functions that settle promises after the response. */
const late: (() => void)[] = []

const VERIFIERS: readonly Verifier[] = [
  { says: 'nothing', verify: () => undefined, ...refused },
  { says: 'null', verify: () => null, ...refused },
  { says: 'the token', verify: ({ bearerToken }) => bearerToken, ...refused },
  { says: 'an empty object', verify: () => ({}), ...refused },
  { says: 'valid: 1', verify: () => good({ valid: 1 }), ...refused },
  { says: "valid: 'true'", verify: () => good({ valid: 'true', hint: TOKEN }), ...refused },
  {
    says: 'an object that is valid when asked twice',
    verify: changing,
    ...refused,
  },
  { says: 'a proxy that throws at everything', verify: () => hostile, ...refused },
  { says: 'a promise for valid', verify: () => good({ valid: Promise.resolve(true) }), ...refused },
  { says: 'valid of its prototype', verify: () => Object.create(good({})), ...accepted },
  {
    says: 'a getter that throws',
    verify: () => Object.defineProperty(good({}), 'clientId', { get: shouting }),
    ...refused,
  },
  { says: 'a date as expiry', verify: () => good({ expiresAt: new Date(Date.now() + 60_000) }), ...refused },
  { says: 'an expiry in 1970', verify: () => good({ expiresAt: 0 }), ...refused, reason: 'expired' },
  {
    says: 'a resource that cannot be a string',
    verify: () => good({ resource: Object.create(null) }),
    ...refused,
  },
  { says: 'extra that throws when it is copied', verify: () => good({ extra: hostile }), ...refused },
  { says: 'a user that throws when it is read', verify: () => good({ user: hostile }), ...accepted },
  { says: 'a user in a circle', verify: () => good({ user: circle }), ...accepted },
  {
    says: 'ten megabytes of user',
    verify: () => good({ user: { text: 'x'.repeat(10_000_000) } }),
    ...accepted,
  },
  {
    says: 'a hundred thousand scopes',
    verify: () => good({ scopes: ['mcp:read', ...Array(100_000).fill('x')] }),
    ...accepted,
  },
  { says: 'an expiry that is not a number', verify: () => good({ expiresAt: `${TOKEN}` }), ...refused },
  { says: 'an expiry of NaN', verify: () => good({ expiresAt: Number.NaN }), ...refused },
  {
    says: 'another resource',
    verify: () => good({ resource: `https://${SECRET}.example` }),
    ...refused,
    reason: 'wrong_resource',
  },
  { says: 'a client that cannot be text', verify: () => good({ clientId: Object.create(null) }), ...refused },
  {
    says: 'scopes that only look alike',
    verify: () => good({ scopes: ['MCP:READ', 'mcp:rea', 'mcp:read ', 7, null, SECRET] }),
    status: 403,
    event: 'kit.mcp.auth.refused',
    reason: 'insufficient_scope',
  },
  {
    says: 'a thenable that is good',
    verify: () => thenable((resolve) => resolve(good({}))),
    ...accepted,
  },
  {
    says: 'null wherever it may',
    verify: () => good({ user: null, clientId: null, expiresAt: null, resource: null, extra: null }),
    ...accepted,
  },
  {
    says: 'a thenable that settles and then throws',
    verify: () => thenable((resolve) => [resolve(good({})), shouting()]),
    ...accepted,
  },
  {
    says: 'a thenable that rejects and then settles',
    verify: () => thenable((resolve, reject) => [reject(SECRET), resolve(good({}))]),
    ...refused,
  },
  { says: 'a rejection with a good result', verify: () => Promise.reject(good({})), ...refused },
  { says: 'a rejection with what throws', verify: () => Promise.reject(hostile), ...refused },
  { says: 'that it throws', verify: shouting, ...refused },
  {
    says: 'a thrown text',
    verify: () => {
      throw TOKEN
    },
    ...refused,
  },
  { says: 'a thenable that throws', verify: () => thenable(shouting), ...refused },
  {
    says: 'something that is no VerifierUnavailableError',
    verify: () => {
      throw Object.assign(new Error(SECRET), { name: 'VerifierUnavailableError' })
    },
    ...refused,
  },
  { says: 'nothing, ever', verify: () => new Promise(() => undefined), ...unavailable },
  { says: 'nothing, ever, by a thenable', verify: () => thenable(() => undefined), ...unavailable },
  {
    says: 'an acceptance that comes too late',
    verify: () => new Promise((resolve) => late.push(() => resolve(good({})))),
    ...unavailable,
  },
  {
    says: 'a rejection that comes too late',
    verify: () => new Promise((_, reject) => late.push(() => reject(new Error(`${SECRET} ${TOKEN}`)))),
    ...unavailable,
  },
  {
    says: 'that it is unavailable',
    verify: () => {
      throw new VerifierUnavailableError('down')
    },
    ...unavailable,
  },
]

/** Returns the warnings and rejections of the process while `act` runs. */
async function diagnosticsOf(act: () => Promise<void>): Promise<unknown[]> {
  const printed: unknown[] = []
  const record = (...said: unknown[]): void => void printed.push(...said)
  const methods = ['log', 'info', 'warn', 'error', 'debug', 'trace'] as const
  const before = methods.map((method) => console[method])
  const events = ['warning', 'unhandledRejection', 'uncaughtExceptionMonitor'] as const
  for (const method of methods) console[method] = record
  for (const event of events) process.on(event, record)
  try {
    await act()
    for (const settle of late.splice(0)) settle()
    // Unhandled rejections are reported after the microtasks.
    await new Promise(setImmediate)
  } finally {
    for (const [index, method] of methods.entries()) console[method] = before[index] as typeof console.log
    for (const event of events) process.off(event, record)
  }
  return printed
}

describe('mcp: whatever a verifier does', () => {
  let verify: Verifier['verify']
  const { telemetry, transport } = keepingEvents()
  const router = KitMcpRouter.create()
    .tool('echo', { description: 'x' }, () => 'here')
    .tool('token', { description: 'x' }, (_args, { auth }) => String(auth?.token))

  const alone = (verifier: VerifyToken): VerifyToken => verifier
  const points = ENTRY_POINTS.filter(({ parsed }) => !parsed)
  const [handler] = points as [EntryPoint]
  for (const [name, entryPoint, wrap] of [
    ...points.map((point) => [point.name, point, alone] as const),
    ['firstMatch', handler, (verifier: VerifyToken) => firstMatch(async () => undefined, verifier)],
    ['cachedVerifier', handler, (verifier: VerifyToken) => cachedVerifier(verifier)],
  ] as const) {
    describe(name, () => {
      const serve = (verifyTimeoutMs: number) =>
        entryPoint.serve({
          router,
          telemetry,
          oauth: oauth({
            verifyTimeoutMs,
            verifyToken: wrap((input) =>
              input.bearerToken === 'reader' ? oauth().verifyToken(input) : (verify(input) as undefined),
            ),
          }),
        })
      const patient = serving(() => serve(10_000))
      const hasty = serving(() => serve(30))

      // `cachedVerifier` looks at a result before the gate does.
      const verifiers = VERIFIERS.filter((one) => name !== 'cachedVerifier' || one.verify !== changing)

      for (const [index, verifier] of verifiers.entries()) {
        it(`a verifier that returns ${verifier.says} gets ${verifier.status}, without details, from ${name}`, async () => {
          verify = verifier.verify
          transport.clear()
          const { send } = verifier.status === 503 ? hasty() : patient()
          const printed = await diagnosticsOf(async () => {
            const answer = await send(legacy(call('echo'), bearer(`${TOKEN}${index}`)))
            expect(answer.status).to.equal(verifier.status)
            expect(answer.headers.has('www-authenticate')).to.equal(
              verifier.status === 401 || verifier.status === 403,
            )
            expect(answer.headers.has('retry-after')).to.equal(verifier.status === 503)
            expectNoSecret([answer.text, ...answer.headers], [TOKEN, SECRET])
          })
          await telemetry.flush()
          const events = transport.getEvents()
          expect(events[0]).to.have.property('name', verifier.event)
          expect(events[0]?.attributes?.reason).to.equal(verifier.reason)
          expectNoSecret(events, [TOKEN, SECRET])
          expect(inspect(printed)).to.equal('[]')
        })
      }

      it(`what a verifier of ${name} returns does not affect other requests at the same time`, async () => {
        const odd = verifiers.filter(({ status }) => status !== 503)
        verify = (input) => odd[Number(input.bearerToken)]?.verify(input)
        await Promise.all(
          odd.map(async ({ status }, index) => {
            const tokens = [`${index}`, 'reader', `${index}`]
            const answers = tokens.map((token) => patient().send(legacy(call('echo'), bearer(token))))
            const statuses = (await Promise.all(answers)).map((answer) => answer.status)
            expect(statuses).to.deep.equal([status, 200, status])
          }),
        )
      })

      it(`a verifier of ${name} that writes to its input affects neither other requests nor the gate`, async () => {
        const seen: unknown[] = []
        verify = (input) => {
          seen.push((input as { mark?: unknown }).mark)
          Reflect.set(input, 'mark', SECRET)
          Reflect.set(input, 'bearerToken', 'other')
          return good({})
        }
        for (const token of ['first-token', 'second-token']) {
          const { message } = await patient().send(legacy(call('token'), bearer(token)))
          expect(message.result.content[0].text).to.equal(token)
        }
        expect(seen).to.deep.equal([undefined, undefined])
      })
    })
  }
})
