import { type Examination, type Observation, observation } from './examination.ts'
import { InconclusiveError } from './finding.ts'
import type { HttpExchange } from './http-exchange.ts'
import {
  initialize,
  initialized,
  LEGACY_REVISIONS,
  legacyMessage,
  type McpMessage,
  MODERN_REVISION,
  modernMessage,
  NEWEST_LEGACY,
} from './messages.ts'
import { callUnknownTool, hasPublicOperations, isGuarded } from './protection.ts'

/** The response to a handshake with the token. @throws {InconclusiveError} without a token */
export const handshake: Observation<HttpExchange> = observation(async (examination) => {
  const { token, options, withheld } = examination
  if (token !== undefined) return await examination.post(initialize(NEWEST_LEGACY), { token })
  if ((options.token ?? options.login) !== undefined) examination.requireSafeWay()
  if (withheld !== undefined)
    throw new InconclusiveError('the token of the sign-in is for another resource: see token.claims')
  throw new InconclusiveError(
    options.login === undefined
      ? 'this check needs a token: use --token-env or --login'
      : 'the sign-in did not succeed: see token.login',
  )
})

/**
 * The response to a protected request with the token. A server with public operations can answer the handshake without
 * looking at the token. @throws {InconclusiveError} without a token
 */
export const tokenResponse: Observation<HttpExchange> = observation(async (examination) => {
  const response = await handshake(examination)
  return !isRefused(response) && (await hasPublicOperations(examination))
    ? await callUnknownTool(examination, examination.token)
    : response
})

/** Returns `true` if the server rejects the token of a request. */
export function isRefused({ status }: HttpExchange): boolean {
  return status === 401 || status === 403
}

/** Returns the token for further requests, or `undefined` if the server requires none. @throws {InconclusiveError} without a valid token */
export async function goodToken(examination: Examination): Promise<string | undefined> {
  if (!(await isGuarded(examination))) return undefined
  if (examination.token === undefined && (await hasPublicOperations(examination))) return undefined
  const response = await tokenResponse(examination)
  if (response.status === 503)
    throw new InconclusiveError('the server cannot verify the token: see token.accepted')
  if (isRefused(response)) throw new InconclusiveError('the server rejects the token: see token.accepted')
  return examination.token
}

/** The supported protocol revisions, and the session that the newest handshake opened. */
export interface RevisionsSeen {
  readonly served: readonly string[]
  /** The other revisions, each with the response. */
  readonly refused: readonly string[]
  /** The summary of the last response without a result. */
  readonly rejection: string | undefined
  readonly sessionId: string | undefined
  /** The capabilities that the server states in the newest revision. */
  readonly capabilities: unknown
}

/** Tries every revision. @throws {InconclusiveError} if the server rejects the token */
export const revisions: Observation<RevisionsSeen> = observation(async (examination) => {
  const token = await goodToken(examination)
  const served: string[] = []
  const refused: string[] = []
  let rejection: string | undefined
  let sessionId: string | undefined
  let capabilities: unknown
  for (const revision of LEGACY_REVISIONS) {
    const response = await examination.post(initialize(revision), { token })
    const offered = response.result('protocolVersion')
    if (offered === revision) {
      served.push(revision)
      sessionId = response.header('mcp-session-id')
      capabilities = response.result('capabilities')
    } else {
      if (response.message?.result === undefined) rejection = response.summary
      refused.push(
        `${revision} (${typeof offered === 'string' ? 'offers another revision' : response.status})`,
      )
    }
  }
  const discovered = await examination.post(modernMessage('server/discover'), { token })
  if (discovered.succeeded && discovered.message?.result !== undefined) {
    served.push(MODERN_REVISION)
    capabilities = discovered.result('capabilities')
  } else refused.push(`${MODERN_REVISION} (${discovered.status})`)
  return { served, refused, rejection, sessionId, capabilities }
})

/** A client that has completed the handshake, if its revision has one. */
export interface Conversation {
  readonly revision: string
  readonly modern: boolean
  /** Returns a request in this revision. */
  message(method: string, params?: Readonly<Record<string, unknown>>): McpMessage
  request(method: string, params?: Readonly<Record<string, unknown>>): Promise<HttpExchange>
}

/** Connects with the newest supported revision. @throws {InconclusiveError} if no revision is supported */
export const conversation: Observation<Conversation> = observation(async (examination) => {
  const token = await goodToken(examination)
  const { served, sessionId } = await revisions(examination)
  const revision = served.at(-1)
  if (revision === undefined)
    throw new InconclusiveError('no protocol revision is supported: see protocol.revisions')
  const modern = revision === MODERN_REVISION
  if (!modern) await examination.post(initialized(revision, sessionId), { token })
  const message: Conversation['message'] = (method, params = {}) =>
    modern ? modernMessage(method, params) : legacyMessage(revision, method, params, sessionId)
  return {
    revision,
    modern,
    message,
    request: (method, params) => examination.post(message(method, params), { token }),
  }
})
