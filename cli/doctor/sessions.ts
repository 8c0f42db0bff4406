import type { CheckFunctions } from './check.ts'
import { goodToken, revisions } from './conversation.ts'
import { decodeToken } from './decoded-token.ts'
import { fail, InconclusiveError, ok } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import { initialize, initialized, legacyMessage, MODERN_REVISION, NEWEST_LEGACY } from './messages.ts'

export const SESSIONS: CheckFunctions = {
  async 'session.other-user'(examination) {
    const { otherToken } = examination.options
    if (otherToken === undefined) throw new InconclusiveError('only with --other-token-env')
    examination.requireSafeWay()
    const token = await goodToken(examination)
    const { served, sessionId } = await revisions(examination)
    if (token === undefined || sessionId === undefined)
      throw new InconclusiveError('the server opens no session for a token')
    if (userOf(token) === userOf(otherToken))
      throw new InconclusiveError('both tokens are of the same user (sub and iss)')
    const revision = served.findLast((one) => one !== MODERN_REVISION) ?? NEWEST_LEGACY
    await examination.post(initialized(revision, sessionId), { token })
    const list = (token: string): Promise<HttpExchange> =>
      examination.post(legacyMessage(revision, 'tools/list', {}, sessionId), { token })
    // Without both, a refusal would not be due to the user.
    for (const needed of [
      await examination.post(initialize(revision), { token: otherToken }),
      await list(token),
    ])
      if (!isServed(needed))
        throw new InconclusiveError(`a user gets ${needed.summary} also without the other`)
    const response = await list(otherToken)
    if (!isServed(response)) return ok(response.summary)
    return fail(
      `${response.status}: the session of one user works with the token of another`,
      'bind each session to the user who opened it, and respond with 404 to others (mcp-gatekit: mcpAuth does, unless bindSessions is false)',
    )
  },
}

const isServed = ({ succeeded, message }: HttpExchange): boolean => succeeded && message !== undefined

/** Returns the issuer and the user of a token, or the token itself if it does not name them. */
function userOf(token: string): string {
  const decoded = decodeToken(token)
  return decoded.kind === 'jwt' ? JSON.stringify([decoded.claims.iss, decoded.claims.sub]) : token
}
