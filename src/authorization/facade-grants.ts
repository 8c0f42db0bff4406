import { optionChecksOf } from '../options/option-checks.ts'
import type { Grants, LiveGrant } from './grants.ts'

const { checkText } = optionChecksOf('authorizationFacade')

/** The access of a client to the account of a user. */
export interface ConnectedGrant {
  /** The claim `gid` of its access tokens. */
  readonly id: string
  /** The client. It chose its name itself, unless it is in `clients.static`. */
  readonly client: {
    readonly id: string
    readonly name: string
    /** The host of its metadata document, or of its redirect URI. */
    readonly host: string
  }
  readonly scopes: readonly string[]
  readonly resources: readonly string[]
  /** The time of the sign-in, such as `2026-11-23T10:00:00.000Z`. */
  readonly createdAt: string
  /** The time of the last sign-in or refresh. */
  readonly lastUsedAt: string
}

/**
 * The grants of users to clients. `sub` is the claim `sub` of access tokens, such as `github|583231`. All methods reject with a
 * `TemporarilyUnavailableError` if the store is unavailable, and with a `KitMcpConfigError` if an argument is not a non-empty string.
 * A call that was rejected can be repeated.
 */
export interface FacadeGrants {
  /** Returns the live grants of a user, the last used one first. There are at most 64. */
  list(sub: string): Promise<ConnectedGrant[]>
  /**
   * Ends a grant of a user. No refresh succeeds afterwards, and access tokens stop within `grants.accessSeconds`.
   * @returns `false` if the user has no such grant.
   */
  revoke(sub: string, id: string): Promise<boolean>
  /**
   * Ends all access of a client: grants, codes, remembered consents, tokens of the provider, and tokens for identity assertions. The
   * client stays registered, and users can sign in again.
   * @returns the number of grants.
   */
  revokeClient(clientId: string): Promise<number>
  /**
   * Ends all access that a user has granted, as `revokeClient` does. The user can sign in again, unless `allow` denies it.
   * @returns the number of grants.
   */
  revokeUser(sub: string): Promise<number>
}

/** Returns the methods for an application. */
export function facadeGrants(grants: Grants): FacadeGrants {
  return {
    async list(sub) {
      checkText('sub', sub)
      return (await grants.ofUser(sub)).map(connectedGrant)
    },
    async revoke(sub, id) {
      checkText('sub', sub)
      checkText('id', id)
      return await grants.endOf(sub, id, 'application')
    },
    async revokeClient(clientId) {
      checkText('clientId', clientId)
      return await grants.endAllOfClient(clientId)
    },
    async revokeUser(sub) {
      checkText('sub', sub)
      return await grants.endAllOfUser(sub)
    },
  }
}

function connectedGrant({
  name: id,
  client,
  scopes,
  resources,
  createdAt,
  usedAt,
}: LiveGrant): ConnectedGrant {
  return {
    id,
    client,
    scopes,
    resources,
    createdAt: new Date(createdAt).toISOString(),
    lastUsedAt: new Date(usedAt).toISOString(),
  }
}
