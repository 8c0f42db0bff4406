import { type Examination, type Observation, observation } from './examination.ts'
import { InconclusiveError } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import {
  initialize,
  LEGACY_REVISIONS,
  legacyMessage,
  type McpMessage,
  MODERN_REVISION,
  modernMessage,
} from './messages.ts'
import { isGuarded } from './protection.ts'

/** What the handshake is answered with our token. @throws {InconclusiveError} where there is none */
export const handshake: Observation<HttpExchange> = observation(async (examination) => {
  const { token, options } = examination
  if (token !== undefined) {
    return await examination.post(initialize(LEGACY_REVISIONS.at(-1) as string), { token })
  }
  if (!examination.mayCarryToken && (options.token ?? options.login) !== undefined)
    throw new InconclusiveError('no token is sent in the clear: see server.tls')
  throw new InconclusiveError(
    options.login === undefined
      ? 'it needs a token: give --token or --login'
      : 'nobody has signed in: see token.login',
  )
})

/** The token to send from here on; undefined where none is wanted. @throws {InconclusiveError} where there is no good one */
export async function goodToken(examination: Examination): Promise<string | undefined> {
  if (!(await isGuarded(examination))) return undefined
  const { status } = await handshake(examination)
  if (status === 401 || status === 403)
    throw new InconclusiveError('the token does not open this server: see token.accepted')
  return examination.token
}

/** Which protocol revisions are served, and the session that the newest handshake has opened. */
export interface RevisionsSeen {
  readonly served: readonly string[]
  /** For those that are not, what was answered. */
  readonly refused: readonly string[]
  readonly sessionId: string | undefined
}

/** Tries every revision. @throws {InconclusiveError} where the server lets nobody in */
export const revisions: Observation<RevisionsSeen> = observation(async (examination) => {
  const token = await goodToken(examination)
  const served: string[] = []
  const refused: string[] = []
  let sessionId: string | undefined
  for (const revision of LEGACY_REVISIONS) {
    const answer = await examination.post(initialize(revision), { token })
    const offered = memberOf(answer.message?.result, 'protocolVersion')
    if (offered === revision) {
      served.push(revision)
      sessionId = answer.header('mcp-session-id')
    } else {
      refused.push(`${revision} (${typeof offered === 'string' ? 'offers another' : answer.status})`)
    }
  }
  const discovered = await examination.post(modernMessage('server/discover'), { token })
  if (discovered.succeeded && discovered.message?.result !== undefined) served.push(MODERN_REVISION)
  else refused.push(`${MODERN_REVISION} (${discovered.status})`)
  return { served, refused, sessionId }
})

/** A client that has got through the handshake, where there is one. */
export interface Conversation {
  readonly revision: string
  readonly modern: boolean
  readonly sessionId: string | undefined
  /** The message that a request of this revision is. */
  message(method: string, params?: Readonly<Record<string, unknown>>): McpMessage
  request(method: string, params?: Readonly<Record<string, unknown>>): Promise<HttpExchange>
}

/** Talks in the newest revision that is served. @throws {InconclusiveError} where none is */
export const conversation: Observation<Conversation> = observation(async (examination) => {
  const token = await goodToken(examination)
  const { served, sessionId } = await revisions(examination)
  const revision = served.at(-1)
  if (revision === undefined)
    throw new InconclusiveError('no protocol revision is served: see protocol.revisions')
  const modern = revision === MODERN_REVISION
  const message = (method: string, params: Readonly<Record<string, unknown>> = {}): McpMessage =>
    modern ? modernMessage(method, params) : legacyMessage(revision, method, params, { sessionId })
  if (!modern) {
    const options = { sessionId, notify: true }
    await examination.post(legacyMessage(revision, 'notifications/initialized', undefined, options), {
      token,
    })
  }
  return {
    revision,
    modern,
    sessionId,
    message,
    request: (method, params) => examination.post(message(method, params), { token }),
  }
})

/** A member of what may be an object. */
export function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined
}
