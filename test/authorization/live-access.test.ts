import { expect } from 'chai'
import { liveVerifier } from '../../src/authorization/grants/live-access.ts'

describe('liveVerifier()', () => {
  const { now } = performance
  // Sums of whole numbers are exact.
  const start = Math.ceil(performance.now())
  afterEach(() => {
    performance.now = now
  })

  for (const [what, claims, hasEnded, questions] of [
    ['its grant', { gid: 'g' }, false, ['grant g']],
    ['its user and client', { sub: 'ada', client_id: 'c' }, undefined, ['ada c']],
    [
      'its grant, user, and client',
      { gid: 'g', sub: 'ada', client_id: 'c' },
      undefined,
      ['grant g', 'ada c'],
    ],
    ['its grant, which has ended, once', { gid: 'g' }, true, ['grant g']],
  ] as const) {
    it(`liveVerifier() asks the store about a token by ${what}, and again after accessSeconds`, async () => {
      const asked: string[] = []
      const grants = {
        hasEnded: async (gid: string) => {
          asked.push(`grant ${gid}`)
          return hasEnded
        },
        isRevoked: async (sub: string, client: string) => {
          asked.push(`${sub} ${client}`)
          return false
        },
      }
      const verify = liveVerifier(() => ({ valid: true, user: { id: 'ada', claims } }), grants as never, 5)
      const counts: number[] = []
      for (const ms of [0, 0, 4_999, 5_000, 9_999, 10_000]) {
        performance.now = () => start + ms
        const verified = await verify({ bearerToken: 'x' } as never)
        expect(verified === undefined).to.equal(hasEnded === true)
        counts.push(asked.length / questions.length)
      }
      expect(counts).to.deep.equal(hasEnded === true ? [1, 1, 1, 1, 1, 1] : [1, 1, 1, 2, 2, 3])
      expect(asked.slice(0, questions.length)).to.deep.equal(questions)
    })
  }
})
