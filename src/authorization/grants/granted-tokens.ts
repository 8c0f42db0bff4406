import { setTimeout } from 'node:timers/promises'
import { KitToolError } from '../../mcp/router/tool-error.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { UpstreamConsentError, UpstreamUnavailableError } from '../../upstream/errors.ts'
import { type UpstreamTokens, upstreamTokens } from '../../upstream/upstream-token.ts'
import type { ServerParts } from '../context.ts'
import type { ProviderTokens } from '../sign-in/provider-client.ts'
import type { UpstreamRecord } from './consents.ts'

/** The time before its expiry at which a token is replaced. */
const MARGIN_SECONDS = 30

/** The pauses while another node refreshes a token. */
const PAUSE_MS = 250
const MAX_ATTEMPTS = 40
/** The maximum number of attempts to store a token. */
const MAX_WRITES = 3

/** The maximum time for which a node reserves the refresh of a token. */
const LOCK_SECONDS = 15

/** Returns the tokens of the provider that belong to the grant of a request. They are refreshed before they expire. */
export function grantedTokens({ options, records, grants, upstream }: ServerParts): UpstreamTokens {
  const pending = new Map<string, Promise<ProviderTokens>>()

  async function read(grant: string, sub: string): Promise<UpstreamRecord> {
    let record: UpstreamRecord | undefined
    try {
      record = (await records.get('Upstream', grant)) as UpstreamRecord | undefined
    } catch (cause) {
      throw new UpstreamUnavailableError({ cause })
    }
    // The grant was revoked.
    if (record?.sub !== sub) throw ended()
    return record
  }

  /** Stores new tokens. The provider may have used up the previous ones, so that a write that fails is repeated. */
  async function keep(grant: string, record: UpstreamRecord, seconds: number): Promise<void> {
    for (let attempt = 1; ; attempt++) {
      try {
        await records.set('Upstream', grant, record, seconds)
        return
      } catch (error) {
        if (attempt === MAX_WRITES) throw error
        await setTimeout(PAUSE_MS)
      }
    }
  }

  /** Waits until this or another node has refreshed a token. A provider may revoke a refresh token that two nodes use. */
  async function refresh(grant: string, sub: string): Promise<ProviderTokens> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
      if (attempt > 0) await setTimeout(PAUSE_MS)
      const isReserved = await records.add('UpstreamLock', grant, true, LOCK_SECONDS).catch(() => false)
      try {
        const record = await read(grant, sub)
        if (isCurrent(record.tokens)) return record.tokens
        if (isReserved) return await renew(grant, record)
      } finally {
        if (isReserved) await records.delete('UpstreamLock', grant).catch(() => undefined)
      }
    }
    throw new UpstreamUnavailableError({ retryAfterSeconds: 2 })
  }

  async function renew(grant: string, record: UpstreamRecord): Promise<ProviderTokens> {
    const { refreshToken } = record.tokens
    try {
      if (refreshToken === undefined) throw ended()
      const tokens = await upstream.refresh(refreshToken)
      const seconds = Math.max(1, record.until - Math.floor(Date.now() / 1000))
      await keep(grant, { ...record, tokens }, seconds)
      if ((await grants.hasEnded(grant)) !== true) return tokens
      await records.delete('Upstream', grant)
      throw ended()
    } catch (error) {
      if (UpstreamConsentError.is(error)) throw error
      if ((error as { error?: unknown }).error === 'invalid_grant') throw ended()
      // The original error may contain tokens.
      throw new UpstreamUnavailableError({ cause: new Error('the identity provider issued no token') })
    }
  }

  async function tokenFor(auth: AuthInfo | undefined): ReturnType<UpstreamTokens['for']> {
    const { gid, sub, iss } = claimsOf(auth)
    if (auth === undefined || iss !== options.url || typeof gid !== 'string' || typeof sub !== 'string')
      throw new KitToolError('This tool requires a user who has signed in at this server.')
    const stored = (await read(gid, sub)).tokens
    if (isCurrent(stored)) return { token: stored.accessToken, expiresAt: stored.expiresAt }
    const running = pending.get(gid) ?? refresh(gid, sub).finally(() => pending.delete(gid))
    pending.set(gid, running)
    const { accessToken, expiresAt } = await running
    return { token: accessToken, expiresAt }
  }

  return upstreamTokens(tokenFor)
}

/** The error of a user who must sign in again. */
function ended(): UpstreamConsentError {
  return new UpstreamConsentError({ error: 'invalid_grant', scopes: [] })
}

function isCurrent({ expiresAt }: ProviderTokens): boolean {
  return expiresAt === undefined || Date.now() / 1000 < expiresAt - MARGIN_SECONDS
}

/** Returns the claims of a token that this server has verified. */
function claimsOf(auth: AuthInfo | undefined): Readonly<Record<string, unknown>> {
  const { user } = Object(auth ?? {}) as { user?: unknown }
  const { claims } = Object(user ?? {}) as { claims?: unknown }
  return Object(claims ?? {}) as Record<string, unknown>
}
