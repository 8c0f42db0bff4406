import { LRUCache } from 'lru-cache'
import { entriesUpTo } from '../../base/entries-up-to.ts'
import { within } from '../../base/within.ts'
import { rejected } from '../../oauth/inputs.ts'
import type { VerifyToken } from '../../oauth/options.ts'
import type { JwtUser } from '../../oauth/verifiers/jwt-options.ts'
import { traitsOf, withTraits } from '../../oauth/verifiers/verifier-traits.ts'
import type { EarlierRevocations, Grants } from './grants.ts'

/** The maximum number of answers that are kept. */
const MAX_ANSWERS = 100_000

/** The time that a request waits for the store. */
const WAIT_MS = 1_000

/** The last answer of the store to a question, or `true` if there was none. */
interface Answer {
  isLive: boolean
  /** The time at which the store is asked again. */
  untilMs: number
  /** Settles when the store has answered, or has taken too long. It is `undefined` after the answer. */
  asking: Promise<unknown> | undefined
}

/**
 * Returns a verifier that also refuses tokens whose grant has ended. It asks the store at most once in `accessSeconds` for each
 * grant, and accepts the token if the store does not answer, unless the grant is known to have ended.
 * @param verifier verifies signature, issuer, audience, and lifetime.
 */
export function liveVerifier(
  verifier: VerifyToken<unknown, JwtUser>,
  grants: Grants,
  accessSeconds: number,
): VerifyToken<unknown, JwtUser> {
  const answers = new LRUCache<string, Answer>(entriesUpTo(MAX_ANSWERS))

  /** Asks the store, unless it has answered lately. An end is final. */
  async function ask(question: string, read: () => Promise<boolean>): Promise<boolean> {
    const answer = answers.get(question) ?? { isLive: true, untilMs: 0, asking: undefined }
    answers.set(question, answer)
    const nowMs = performance.now()
    if (answer.isLive && answer.asking === undefined && nowMs >= answer.untilMs) {
      // What the store answers is as old as the question.
      answer.untilMs = nowMs + accessSeconds * 1000
      const asked = read()
        .then((isLive) => {
          answer.isLive = isLive
        })
        .finally(() => {
          answer.asking = undefined
        })
      const late = () => new Error('the store did not answer in time')
      // If the store fails, the last answer stays.
      answer.asking = within(asked, WAIT_MS, late).catch(() => undefined)
    }
    await answer.asking
    return answer.isLive
  }

  async function isLive(claims: Readonly<Record<string, unknown>>): Promise<boolean> {
    const { gid, sub, client_id: clientId, iat, rev } = claims
    const hasGrant = typeof gid === 'string'
    return await ask(hasGrant ? gid : JSON.stringify([sub, clientId, rev]), async () => {
      const hasEnded = hasGrant ? await grants.hasEnded(gid) : undefined
      if (hasEnded !== undefined) return !hasEnded
      // The grant is not described, or the token belongs to none.
      return !(await grants.isRevoked(String(sub), String(clientId), hasGrant ? Number(iat) : earlierIn(rev)))
    })
  }

  const verify: VerifyToken<unknown, JwtUser> = async (input) => {
    const verified = await verifier(input)
    if (verified?.valid !== true) return verified
    return (await isLive(verified.user?.claims ?? {})) ? verified : rejected(input, 'not_active')
  }
  return withTraits(verify, {
    ...traitsOf(verifier),
    isLive: (user) => isLive((user as Partial<JwtUser> | null | undefined)?.claims ?? {}),
  })
}

/** Returns the revocations before a token without a grant. */
function earlierIn(rev: unknown): EarlierRevocations {
  const [user = '', client = ''] = Array.isArray(rev) ? rev : []
  return [String(user), String(client)]
}
