import { LRUCache } from 'lru-cache'
import { entriesUpTo } from '../../entries-up-to.ts'
import { joinGate, onJoin } from '../../oauth/gate-values.ts'
import { rejected } from '../../oauth/inputs.ts'
import { withLiveness } from '../../oauth/liveness.ts'
import type { VerifyToken } from '../../oauth/options.ts'
import type { JwtUser } from '../../oauth/verifiers/jwt-options.ts'
import { within } from '../../within.ts'
import { type EarlierRevocations, type Grants, isRevokedBy, type Revocation } from './grants.ts'

/** The maximum number of answers that are kept. */
const MAX_ANSWERS = 100_000

/** The time that a request waits for the store. */
const WAIT_MS = 1_000

/** The last answer of the store to a question. It is `undefined` if there was none. */
interface Answer {
  value: unknown
  /** The time at which the store is asked again. */
  untilMs: number
  /** Settles when the store has answered, or has taken too long. */
  waiting: Promise<void> | undefined
  isAsked: boolean
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

  async function ask<T>(
    question: string,
    read: () => Promise<T>,
    isLast: (value: T | undefined) => boolean = () => false,
  ): Promise<T | undefined> {
    const answer = answers.get(question) ?? {
      value: undefined,
      untilMs: 0,
      waiting: undefined,
      isAsked: false,
    }
    answers.set(question, answer)
    const nowMs = performance.now()
    if (!isLast(answer.value as T | undefined) && !answer.isAsked && nowMs >= answer.untilMs) {
      answer.isAsked = true
      // What the store answers is as old as the question.
      answer.untilMs = nowMs + accessSeconds * 1000
      const asked = read()
        .then(
          (value) => {
            answer.value = value
          },
          // The last answer stays.
          () => undefined,
        )
        .finally(() => {
          answer.isAsked = false
        })
      const late = () => new Error('the store did not answer in time')
      answer.waiting = within(asked, WAIT_MS, late)
        .catch(() => undefined)
        .finally(() => {
          answer.waiting = undefined
        })
    }
    await answer.waiting
    return answer.value as T | undefined
  }

  async function isRevoked(
    sub: string,
    clientId: string,
    made: EarlierRevocations | number,
  ): Promise<boolean> {
    const { revocations } = grants
    const [user, client] = await Promise.all([
      ask<Revocation | undefined>(`user ${sub}`, () => revocations.last('user', sub)),
      ask<Revocation | undefined>(`client ${clientId}`, () => revocations.last('client', clientId)),
    ])
    return isRevokedBy(user, made, 0) || isRevokedBy(client, made, 1)
  }

  async function isLive(claims: Readonly<Record<string, unknown>>): Promise<boolean> {
    const { gid, sub, client_id: clientId, iat, rev } = claims
    if (typeof gid === 'string') {
      const state = await ask(`grant ${gid}`, () => grants.stateOf(gid), isEnded)
      if (state === 'ended') return false
      if (state !== 'unknown') return true
    }
    // The grant is not described, or the token belongs to none.
    const made = typeof gid === 'string' ? Number(iat) : earlierIn(rev)
    return !(await isRevoked(String(sub), String(clientId), made))
  }

  const verify: VerifyToken<unknown, JwtUser> = async (input) => {
    const verified = await verifier(input)
    if (verified?.valid !== true) return verified
    return (await isLive(verified.user?.claims ?? {})) ? verified : rejected(input, 'not_active')
  }
  withLiveness(verify, (user) => isLive((user as Partial<JwtUser> | null | undefined)?.claims ?? {}))
  return onJoin(verify, (gate) => joinGate(verifier, gate))
}

function isEnded(state: unknown): boolean {
  return state === 'ended'
}

/** Returns the claim `rev` of a token without a grant: the revocations before it. */
function earlierIn(rev: unknown): EarlierRevocations {
  const [user = '', client = ''] = Array.isArray(rev) ? rev : []
  return [String(user), String(client)]
}
