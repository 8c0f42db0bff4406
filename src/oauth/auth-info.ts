import { inspect } from 'node:util'

export interface AuthInfoMembers<User> {
  readonly clientId: string
  readonly scopes: string[]
  readonly expiresAt?: number | undefined
  readonly resource?: URL | undefined
  readonly user?: User | undefined
  readonly extra: Record<string, unknown>
}

/**
 * Who is calling, verified: what `mcpAuth` leaves on `req.auth`. The shape of the official SDK's
 * `AuthInfo`, so that its transports find it, plus `user`.
 *
 * `token` can be read, but is not enumerable: it appears neither in `JSON.stringify(auth)`
 * nor in `util.inspect(auth)`, nor in a copy made with spread.
 */
export class AuthInfo<User = unknown> {
  readonly #token: string
  /** The OAuth client, `''` when the verifier did not say. */
  readonly clientId: string
  /** The scopes as granted; broader ones are not expanded. */
  readonly scopes: string[]
  /** Seconds since 1970. Absent when the verifier did not say. */
  declare readonly expiresAt?: number
  /** What the token is for (RFC 8707). */
  declare readonly resource?: URL
  /** What the verifier gave as `user`. */
  declare readonly user?: User
  /** What else the verifier gave. */
  readonly extra: Record<string, unknown>

  constructor(token: string, members: AuthInfoMembers<User>) {
    this.#token = token
    this.clientId = members.clientId
    this.scopes = members.scopes
    this.extra = members.extra
    if (members.expiresAt !== undefined) this.expiresAt = members.expiresAt
    if (members.resource !== undefined) this.resource = members.resource
    if (members.user !== undefined) this.user = members.user
  }

  /** The access token as it was sent. */
  get token(): string {
    return this.#token
  }

  static {
    // Without the token, whatever options `util.inspect` is given.
    Object.defineProperty(AuthInfo.prototype, inspect.custom, {
      value(this: AuthInfo): object {
        return { ...this }
      },
    })
  }
}
