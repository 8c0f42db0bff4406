import { createHash } from 'node:crypto'
import { expect } from 'chai'
import { expectTypeOf } from 'expect-type'
import { cachedVerifier, jwtVerifier, type VerifyTokenInput } from '../../../src/index.ts'
import { VerifierUnavailableError } from '../../../src/oauth/errors.ts'
import { rejected, verificationOf } from '../../../src/oauth/inputs.ts'
import type { VerifiedToken, VerifyToken } from '../../../src/oauth/options.ts'
import { AUDIENCE, createSigningKey, ISSUER, nowSeconds, signToken } from '../../support/tokens.ts'
import { verifyInput } from '../../support/verify-input.ts'

/** A verifier that settles on demand and counts its calls. */
function slowVerifier() {
  const open: {
    readonly token: string | undefined
    settle(result: unknown): void
    fail(error: unknown): void
  }[] = []
  const verify: VerifyToken<unknown, any> = ({ bearerToken }) =>
    new Promise((resolve, reject) => {
      open.push({ token: bearerToken, settle: resolve as never, fail: reject })
    })
  return { verify, open }
}

/** A verifier that returns `result` and counts its calls. */
function counting(result: (input: VerifyTokenInput, call: number) => unknown = () => ({ valid: true })) {
  const asked: (string | undefined)[] = []
  const verify = (async (input: VerifyTokenInput) => {
    asked.push(input.bearerToken)
    return result(input, asked.length)
  }) as VerifyToken<unknown, any>
  return { verify, asked }
}

describe('cachedVerifier()', () => {
  const { now } = Date
  const monotonic = performance.now
  afterEach(() => {
    Date.now = now
    performance.now = monotonic
  })
  /** Sets the wall clock, with or without elapsed time. */
  const setWallClock = (seconds: number): void => {
    Date.now = () => now() + seconds * 1000
  }
  const letPass = (seconds: number): void => {
    performance.now = () => monotonic.call(performance) + seconds * 1000
    setWallClock(seconds)
  }
  /** `lru-cache` reads the clock once per millisecond. */
  const nextTick = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 5))

  it('cachedVerifier() calls the verifier once per token and caches the result', async () => {
    const exp = nowSeconds() + 300
    const result = {
      valid: true,
      user: { id: 'ada', roles: ['admin'] },
      scopes: ['a'],
      clientId: 'cli',
      expiresAt: exp,
      resource: AUDIENCE,
      extra: { tenant: 'acme' },
    }
    const { verify, asked } = counting(() => result)
    const verifier = cachedVerifier(verify)
    for (let round = 0; round < 3; round++) expect(await verifier(verifyInput('t'))).to.deep.equal(result)
    expect(asked).to.deep.equal(['t'])
    await verifier(verifyInput('u'))
    expect(asked).to.deep.equal(['t', 'u'])
  })

  const unkept: readonly (readonly [what: string, result: unknown])[] = [
    ['undefined', undefined],
    ['null', null],
    ['valid: false', { valid: false }],
    ['valid: 1', { valid: 1 }],
    ['a text', 'valid'],
    ['an acceptance that has expired', { valid: true, expiresAt: 1 }],
    ['an acceptance that expires at NaN', { valid: true, expiresAt: Number.NaN }],
    ['an acceptance that never expires, by number', { valid: true, expiresAt: Number.POSITIVE_INFINITY }],
    ['an acceptance that expires at a text', { valid: true, expiresAt: '99999999999' }],
    ['an acceptance of more than fits', { valid: true, user: { text: 'x'.repeat(65_536) } }],
    ['an acceptance with a vast list', { valid: true, user: new Array(1e9) }],
    [
      'an acceptance that goes round in a circle',
      (() => {
        const user: Record<string, unknown> = {}
        user.user = user
        return { valid: true, user }
      })(),
    ],
    [
      'an acceptance that throws when it is looked into',
      {
        valid: true,
        user: {
          get name() {
            throw new Error('no')
          },
        },
      },
    ],
  ]
  for (const [what, result] of unkept) {
    it(`cachedVerifier() does not cache ${what}, but returns it`, async () => {
      const { verify, asked } = counting(() => result)
      const verifier = cachedVerifier(verify)
      for (let round = 0; round < 2; round++) {
        const given = await verifier(verifyInput('t'))
        if (typeof result !== 'object' || result === null) expect(given).to.equal(result)
        else expect(given?.valid).to.equal((result as { valid: unknown }).valid)
      }
      expect(asked).to.have.length(2)
    })
  }

  it('cachedVerifier() does not cache outages and errors, thrown or rejected', async () => {
    const { verify, asked } = counting((_, call) => {
      if (call === 1) throw new VerifierUnavailableError('down')
      if (call === 2) throw new TypeError('broken')
      return { valid: true }
    })
    const throwing: VerifyToken = (input) => {
      if (asked.length === 2) {
        asked.push('thrown')
        throw new TypeError('thrown')
      }
      return verify(input)
    }
    const verifier = cachedVerifier(throwing)
    const names: string[] = []
    for (let round = 0; round < 5; round++) {
      try {
        names.push(String((await verifier(verifyInput('t')))?.valid))
      } catch (error) {
        names.push((error as Error).name)
      }
    }
    expect(names).to.deep.equal(['VerifierUnavailableError', 'TypeError', 'TypeError', 'true', 'true'])
    expect(asked).to.have.length(4)
  })

  it('cachedVerifier() calls the verifier for every request without a token', async () => {
    const { verify, asked } = counting()
    const verifier = cachedVerifier(verify)
    for (const none of [undefined, '', undefined, '']) await verifier(verifyInput(none))
    expect(asked).to.deep.equal([undefined, '', undefined, ''])
  })

  it('cachedVerifier() makes one call for concurrent requests with the same token', async () => {
    const { verify, open } = slowVerifier()
    const verifier = cachedVerifier(verify)
    const answers = ['t', 'u', 't', 't', 'u'].map((token) => verifier(verifyInput(token)))
    expect(open.map(({ token }) => token)).to.deep.equal(['t', 'u'])
    for (const call of open) call.settle({ valid: true, user: call.token })
    const users = (await Promise.all(answers)).map((answer) => answer?.user)
    expect(users).to.deep.equal(['t', 'u', 't', 't', 'u'])
  })

  it('cachedVerifier() rejects all waiting requests in an outage, and calls the verifier again afterwards', async () => {
    const { verify, open } = slowVerifier()
    const verifier = cachedVerifier(verify)
    const waiting = [verifier(verifyInput('t')), verifier(verifyInput('t'))]
    open[0]?.fail(new VerifierUnavailableError('down'))
    for (const outcome of await Promise.allSettled(waiting)) expect(outcome.status).to.equal('rejected')
    void verifier(verifyInput('t'))
    expect(open).to.have.length(2)
  })

  it('cachedVerifier() gives all waiting requests the reason of the refusal', async () => {
    let refuse: () => void = () => undefined
    const verifier = cachedVerifier(async (input) => {
      await new Promise<void>((resolve) => {
        refuse = resolve
      })
      return rejected(input, 'expired')
    })
    const inputs = [verifyInput('t'), verifyInput('t'), verifyInput('t')]
    const answers = inputs.map((input) => verifier(input))
    refuse()
    expect(await Promise.all(answers)).to.deep.equal([undefined, undefined, undefined])
    expect(inputs.map((input) => verificationOf(input).refusal)).to.deep.equal([
      'expired',
      'expired',
      'expired',
    ])
  })

  it('cachedVerifier() starts another call if one has not settled for ten seconds', async () => {
    const { verify, open } = slowVerifier()
    const verifier = cachedVerifier(verify)
    void verifier(verifyInput('t'))
    letPass(9)
    void verifier(verifyInput('t'))
    expect(open).to.have.length(1)
    letPass(11)
    const answer = verifier(verifyInput('t'))
    expect(open).to.have.length(2)
    open[1]?.settle({ valid: true, user: 'second' })
    expect((await answer)?.user).to.equal('second')
    open[0]?.settle({ valid: true, user: 'first' })
    await nextTick()
    expect((await verifier(verifyInput('t')))?.user).to.equal('second')
  })

  describe('lifetime', () => {
    const later: readonly (readonly [
      what: string,
      options: { ttlSeconds?: number },
      expiresIn: number | undefined,
      pass: () => void,
      calls: number,
    ])[] = [
      ['for a minute', {}, undefined, () => letPass(59), 1],
      ['for no more than a minute', {}, undefined, () => letPass(61), 2],
      ['for ttlSeconds', { ttlSeconds: 600 }, undefined, () => letPass(599), 1],
      ['for no longer than ttlSeconds', { ttlSeconds: 600 }, 6_000, () => letPass(601), 2],
      ['no longer than the expiry of the token', {}, 30, () => letPass(31), 2],
      ['until the token expires', { ttlSeconds: 600 }, 300, () => letPass(290), 1],
      ['no longer than its expiry when the clock is set forward', {}, 300, () => setWallClock(301), 2],
      [
        'no longer when the clock is set back',
        {},
        30,
        () => {
          letPass(61)
          setWallClock(-3_600)
        },
        2,
      ],
    ]
    for (const [what, options, expiresIn, pass, calls] of later) {
      it(`an acceptance is cached ${what}`, async () => {
        const expiresAt = expiresIn === undefined ? undefined : now() / 1000 + expiresIn
        const { verify, asked } = counting(() => ({ valid: true, expiresAt }))
        const verifier = cachedVerifier(verify, options)
        await verifier(verifyInput('t'))
        await nextTick()
        pass()
        await verifier(verifyInput('t'))
        expect(asked).to.have.length(calls)
      })
    }
  })

  it('cachedVerifier() removes the least recently used token beyond maxEntries', async () => {
    const { verify, asked } = counting()
    const verifier = cachedVerifier(verify, { maxEntries: 2 })
    for (const token of ['a', 'b', 'a', 'c', 'a', 'b']) await verifier(verifyInput(token))
    expect(asked).to.deep.equal(['a', 'b', 'c', 'b'])
  })

  it('cachedVerifier() removes the least recently used token if the results are too large together', async () => {
    const asked: string[] = []
    const verifier = cachedVerifier(
      ({ bearerToken = '' }) => {
        asked.push(bearerToken)
        return { valid: true, user: bearerToken.repeat(60_000) }
      },
      { maxEntries: 100 },
    )
    const tokens = [...'abcdefghijklmnopqrstuvwxyz']
    for (const token of tokens) await verifier(verifyInput(token))
    for (const token of [...tokens].reverse()) await verifier(verifyInput(token))
    // The cache keeps 1,048,576 members and characters, which is less than 17 results.
    expect(asked.slice(26)).to.deep.equal([...'ihgfedcba'])
  })

  describe('invalidation', () => {
    const sha256 = (token: string): string => createHash('sha256').update(token).digest('hex')
    const ways: readonly (readonly [
      what: string,
      forget: (verifier: ReturnType<typeof cachedVerifier>) => void,
    ])[] = [
      ['a token', (verifier) => verifier.invalidate('t')],
      ['a token by its key', (verifier) => verifier.invalidateKey(sha256('t'))],
      ['everything', (verifier) => verifier.clear()],
    ]
    for (const [what, forget] of ways) {
      it(`${what} removes a cached result at once`, async () => {
        const { verify, asked } = counting()
        const verifier = cachedVerifier(verify)
        await verifier(verifyInput('t'))
        await verifier(verifyInput('u'))
        forget(verifier)
        await verifier(verifyInput('t'))
        expect(asked).to.deep.equal(['t', 'u', 't'])
      })

      it(`${what} during a call keeps waiting requests, and later ones call the verifier again`, async () => {
        const { verify, open } = slowVerifier()
        const verifier = cachedVerifier(verify)
        const waiting = [verifier(verifyInput('t')), verifier(verifyInput('t'))]
        forget(verifier)
        const later = verifier(verifyInput('t'))
        expect(open).to.have.length(2)
        open[0]?.settle({ valid: true, user: 'before' })
        expect((await Promise.all(waiting)).map((answer) => answer?.user)).to.deep.equal(['before', 'before'])
        open[1]?.settle(undefined)
        expect(await later).to.equal(undefined)
        void verifier(verifyInput('t'))
        expect(open, 'the outcome of neither was kept').to.have.length(3)
      })
    }

    it('invalidate of an unknown token removes nothing else', async () => {
      const { verify, asked } = counting()
      const verifier = cachedVerifier(verify)
      await verifier(verifyInput('t'))
      verifier.invalidate('never seen')
      verifier.invalidateKey('no key at all')
      await verifier(verifyInput('t'))
      expect(asked).to.have.length(1)
    })
  })

  describe('isolation of requests', () => {
    it('a cached result of plain data is a frozen copy', async () => {
      const user = { id: 'ada', roles: ['reader'], address: { city: 'London' } }
      const result = { valid: true, user, scopes: ['a'], extra: { list: [1] } }
      const verifier = cachedVerifier(async () => result)
      const first = (await verifier(verifyInput('t'))) as VerifiedToken<typeof user>
      user.roles.push('admin')
      result.scopes.push('b')
      for (const change of [
        () => first.user?.roles.push('admin'),
        () => Object.assign(first.user?.address as object, { city: 'Paris' }),
        () => (first.scopes as string[]).push('b'),
        () => Object.assign(first, { clientId: 'eve' }),
        () => (first.extra as { list: number[] }).list.push(2),
      ]) {
        expect(change).to.throw(TypeError)
      }
      expect(await verifier(verifyInput('t'))).to.deep.equal({
        valid: true,
        user: { id: 'ada', roles: ['reader'], address: { city: 'London' } },
        scopes: ['a'],
        extra: { list: [1] },
      })
    })

    it('a result that cannot be copied is not shared: each waiting request is verified separately', async () => {
      const { verify, asked } = counting((_, call) => ({
        valid: true,
        user: { call, text: 'x'.repeat(65_536) },
      }))
      const verifier = cachedVerifier(verify)
      const answers = await Promise.all([verifier(verifyInput('t')), verifier(verifyInput('t'))])
      expect(answers.map((answer) => answer?.user.call)).to.deep.equal([1, 2])
      expect(asked).to.have.length(2)
    })

    it('an instance of a class in a cached result is not copied or frozen', async () => {
      class Account {
        readonly #id = 7
        get id(): number {
          return this.#id
        }
      }
      class Result {
        readonly user = new Account()
        get valid(): boolean {
          return true
        }
        get scopes(): string[] {
          return ['a']
        }
      }
      const result = new Result()
      const verifier = cachedVerifier(async () => result)
      for (let round = 0; round < 2; round++) {
        const given = await verifier(verifyInput('t'))
        expect(given?.user).to.equal(result.user)
        expect(given?.user?.id).to.equal(7)
        expect(given?.scopes).to.deep.equal(['a'])
      }
      expect(Object.isFrozen(result.user)).to.equal(false)
    })

    it('a member called __proto__ of a cached result does not change a prototype', async () => {
      const user = JSON.parse('{"__proto__":{"admin":true},"id":"ada"}')
      const verifier = cachedVerifier(async () => ({ valid: true, user }))
      await verifier(verifyInput('t'))
      const given = (await verifier(verifyInput('t')))?.user
      expect(given.admin).to.equal(undefined)
      expect(Object.keys(given)).to.deep.equal(['__proto__', 'id'])
    })

    it('a cached result for one resource is not used for a gate with another one', async () => {
      const key = await createSigningKey('ES256', 'k')
      const other = 'https://other.example.com/mcp'
      const verifier = cachedVerifier(
        jwtVerifier({ issuer: ISSUER, audience: [AUDIENCE, other], publicKey: key.jwk }),
      )
      const token = await signToken(key, { aud: [AUDIENCE, other] })
      for (const resource of [AUDIENCE, other, AUDIENCE])
        expect(await verifier(verifyInput(token, resource))).to.include({ valid: true, resource })
    })

    it('a cached result of a DPoP proof is not used for another key', async () => {
      const { verify, asked } = counting((input) =>
        input.proofKey !== undefined ? { valid: true, cnf: { jkt: input.proofKey } } : undefined,
      )
      const verifier = cachedVerifier(verify)
      const proven = (proofKey: string): VerifyTokenInput => verifyInput('t', undefined, proofKey)
      expect(await verifier(proven('k1'))).to.deep.equal({ valid: true, cnf: { jkt: 'k1' } })
      expect(await verifier(proven('k1'))).to.deep.equal({ valid: true, cnf: { jkt: 'k1' } })
      expect(asked).to.have.length(1)
      expect(await verifier(proven('k2'))).to.deep.equal({ valid: true, cnf: { jkt: 'k2' } })
      expect(await verifier(verifyInput('t'))).to.equal(undefined)
    })
  })

  it('cachedVerifier() accepts a ttlSeconds below 1', async () => {
    let calls = 0
    const verifier = cachedVerifier(async () => ({ valid: true, user: ++calls }), { ttlSeconds: 0.5005 })
    expect(await verifier(verifyInput('t'))).to.include({ user: 1 })
    expect(await verifier(verifyInput('t'))).to.include({ user: 1 })
    await new Promise((resolve) => setTimeout(resolve, 510))
    expect(await verifier(verifyInput('t'))).to.include({ user: 2 })
  })

  it('cachedVerifier() keeps the user of the verifier in its type', () => {
    const verifier = cachedVerifier(async () => ({ valid: true, user: { id: 1 } }), { ttlSeconds: 5 })
    expectTypeOf(verifier).toExtend<VerifyToken<unknown, { id: number }>>()
    expectTypeOf(verifier.invalidate).toEqualTypeOf<(token: string) => void>()
  })
})
