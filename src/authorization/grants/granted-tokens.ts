import { setTimeout } from 'node:timers/promises'
import { KitToolError } from '../../mcp/router/tool-error.ts'
import type { AuthInfo } from '../../oauth/auth-info.ts'
import { UpstreamConsentError, UpstreamUnavailableError } from '../../upstream/errors.ts'
import type { UpstreamTokens } from '../../upstream/upstream-token.ts'
import type { Records } from '../records.ts'
import type { ProviderClient, ProviderTokens } from '../sign-in/provider-client.ts'
import type { UpstreamRecord } from './consents.ts'
import type { Grants } from './grants.ts'

/** The time before its expiry at which a token is replaced. */
const MARGIN_SECONDS = 30

/** The pauses while another node refreshes a token. */
const PAUSE_MS = 250
const MAX_ATTEMPTS = 40
/** The maximum number of attempts to store a token. */
const MAX_WRITES = 3

/** The maximum time for which a node reserves the refresh of a token. */
const LOCK_SECONDS = 15

export interface GrantedTokensContext {
  readonly issuer: string
  readonly records: Records
  readonly grants: Grants
  readonly upstream: ProviderClient
}

/** Returns the tokens of the provider that belong to the grant of a request. They are refreshed before they expire. */
export function grantedTokens({ issuer, records, grants, upstream }: GrantedTokensContext): UpstreamTokens {
  const pending = new Map<string, Promise<ProviderTokens>>()

  async function read(grant: string, sub: string): Promise<UpstreamRecord> {
    let record: UpstreamRecord | undefined
    try {
      record = (await records.get('Upstream', grant)) as UpstreamRecord | undefined
    } catch (cause) {
      throw new UpstreamUnavailableError({ cause })
    }
    // The grant was revoked.
    if (record?.sub !== sub) throw new UpstreamConsentError({ error: 'invalid_grant', scopes: [] })
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

  async function refresh(grant: string, sub: string): Promise<ProviderTokens> {
    // A provider may revoke a refresh token that two nodes use at the same time.
    let record = await read(grant, sub)
    let isReserved = false
    for (let attempt = 0; !isCurrent(record.tokens) && !isReserved; attempt++) {
      if (attempt === MAX_ATTEMPTS) throw new UpstreamUnavailableError({ retryAfterSeconds: 2 })
      if (attempt > 0) await setTimeout(PAUSE_MS)
      isReserved = await records.add('UpstreamLock', grant, true, LOCK_SECONDS).catch(() => false)
      record = await read(grant, sub)
    }
    try {
      const { refreshToken } = record.tokens
      if (isCurrent(record.tokens)) return record.tokens
      if (refreshToken === undefined) throw new UpstreamConsentError({ error: 'invalid_grant', scopes: [] })
      const tokens = await upstream.refresh(refreshToken)
      const seconds = Math.max(1, record.until - Math.floor(Date.now() / 1000))
      await keep(grant, { ...record, tokens }, seconds)
      if ((await grants.stateOf(grant)) === 'ended') {
        await records.delete('Upstream', grant)
        throw new UpstreamConsentError({ error: 'invalid_grant', scopes: [] })
      }
      return tokens
    } catch (error) {
      if (UpstreamConsentError.is(error)) throw error
      const { error: code } = error as { error?: unknown }
      if (code === 'invalid_grant') throw new UpstreamConsentError({ error: code, scopes: [] })
      // The original error may contain tokens.
      throw new UpstreamUnavailableError({ cause: new Error('the identity provider issued no token') })
    } finally {
      if (isReserved) await records.delete('UpstreamLock', grant).catch(() => undefined)
    }
  }

  async function tokenFor(auth: AuthInfo | undefined): ReturnType<UpstreamTokens['for']> {
    const { gid, sub, iss } = claimsOf(auth)
    if (auth === undefined || iss !== issuer || typeof gid !== 'string' || typeof sub !== 'string')
      throw new KitToolError('This tool requires a user who has signed in at this server.')
    const stored = (await read(gid, sub)).tokens
    if (isCurrent(stored)) return { token: stored.accessToken, expiresAt: stored.expiresAt }
    const running =
      pending.get(gid) ??
      refresh(gid, sub).finally(() => {
        pending.delete(gid)
      })
    pending.set(gid, running)
    const { accessToken, expiresAt } = await running
    return { token: accessToken, expiresAt }
  }

  return {
    for: tokenFor,
    async headers(value) {
      const auth =
        value !== undefined && typeof (value as Partial<AuthInfo>).token === 'string'
          ? (value as AuthInfo)
          : (value as { auth?: AuthInfo } | undefined)?.auth
      const { token } = await tokenFor(auth)
      return { authorization: `Bearer ${token}` }
    },
  }
}

function isCurrent({ expiresAt }: ProviderTokens): boolean {
  return expiresAt === undefined || Date.now() / 1000 < expiresAt - MARGIN_SECONDS
}

/** Returns the claims of a token that this server has verified. */
function claimsOf(auth: AuthInfo | undefined): Readonly<Record<string, unknown>> {
  if (auth === undefined || auth === null) return {}
  const { claims } = Object(auth.user ?? {}) as { claims?: unknown }
  return Object(claims ?? {}) as Record<string, unknown>
}
