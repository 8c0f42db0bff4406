import { inspect } from 'node:util'
import { expect } from 'chai'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import type { VerifiedToken, VerifyTokenInput } from '../../src/oauth/options.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../src/telemetry/index.ts'
import { expectNoSecret } from '../support/expect-no-secret.ts'
import { ENTRY_POINTS, serving } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, call, legacy } from '../support/mcp/wire.ts'

const TOKEN = 'eyJ0b2tlbi1vZi1hZGE.c2VjcmV0LXBhcnQ.c2lnbmF0dXJl'
const SECRET = 'what-the-verifier-knows'

class Odd {
  get valid(): boolean {
    throw new Error(`${SECRET} ${TOKEN}`)
  }
}

const shouting = (): never => {
  throw Object.assign(new Error(`${SECRET}: ${TOKEN}`), { token: TOKEN, cause: new Error(TOKEN) })
}

/** An object that `await` takes for a promise. */
function thenable(then: (resolve: (value: unknown) => void) => void): object {
  const key = 'then'
  return { [key]: then }
}

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

/** A good result, but for one member. */
const good = (changes: object): VerifiedToken => ({ valid: true, scopes: ['mcp:read'], ...changes })

const VERIFIERS: readonly Verifier[] = [
  { says: 'nothing', verify: () => undefined, ...refused },
  { says: 'null', verify: () => null, ...refused },
  { says: 'true', verify: () => true, ...refused },
  { says: 'the token', verify: ({ bearerToken }) => bearerToken, ...refused },
  { says: 'a list', verify: () => [{ valid: true }], ...refused },
  { says: 'a function', verify: () => () => ({ valid: true }), ...refused },
  { says: 'an empty object', verify: () => ({}), ...refused },
  { says: 'valid: 1', verify: () => good({ valid: 1 }), ...refused },
  { says: "valid: 'true'", verify: () => good({ valid: 'true', hint: TOKEN }), ...refused },
  { says: 'an object whose valid throws', verify: () => new Odd(), ...refused },
  {
    says: 'an object that is valid when asked twice',
    verify: changing,
    ...refused,
  },
  {
    says: 'a proxy that throws at everything',
    verify: () => new Proxy({}, { get: shouting, has: shouting }),
    ...refused,
  },
  { says: 'an expiry that is not a number', verify: () => good({ expiresAt: `${TOKEN}` }), ...refused },
  { says: 'an expiry of NaN', verify: () => good({ expiresAt: Number.NaN }), ...refused },
  { says: 'an expiry of long ago', verify: () => good({ expiresAt: 1 }), ...refused, reason: 'expired' },
  {
    says: 'another resource',
    verify: () => good({ resource: `https://${SECRET}.example` }),
    ...refused,
    reason: 'wrong_resource',
  },
  { says: 'a client that cannot be text', verify: () => good({ clientId: Object.create(null) }), ...refused },
  {
    says: 'scopes of the wrong kind',
    verify: () => good({ scopes: { 'mcp:read': true } }),
    status: 403,
    event: 'kit.mcp.auth.refused',
    reason: 'insufficient_scope',
  },
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
  { says: 'that it throws', verify: shouting, ...refused },
  { says: 'that it rejects', verify: async () => shouting(), ...refused },
  {
    says: 'a thrown text',
    verify: () => {
      throw TOKEN
    },
    ...refused,
  },
  { says: 'a rejection with nothing', verify: () => Promise.reject(undefined), ...refused },
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
    says: 'a rejection that comes too late',
    verify: () => new Promise((_, reject) => setTimeout(reject, 60, new Error(`${SECRET} ${TOKEN}`))),
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
  const transport = InMemoryTransportAdapter.create()
  const telemetry = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .addTransport(transport)
    .build()
  const router = KitMcpRouter.create().tool('echo', { description: 'x' }, () => 'here')

  for (const entryPoint of ENTRY_POINTS.filter(({ parsed }) => !parsed)) {
    describe(entryPoint.name, () => {
      const served = serving(() =>
        entryPoint.serve({
          router,
          telemetry,
          oauth: oauth({ verifyTimeoutMs: 30, verifyToken: (input) => verify(input) as undefined }),
        }),
      )

      for (const verifier of VERIFIERS) {
        it(`a verifier that returns ${verifier.says} gets ${verifier.status}, without details`, async () => {
          verify = verifier.verify
          transport.clear()
          const printed = await diagnosticsOf(async () => {
            const answer = await served().send(legacy(call('echo'), bearer(TOKEN)))
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
    })
  }
})
