import { inspect } from 'node:util'

/** What `AuthInfo` tells of a token, whose text it has beside them. */
export interface AuthInfoMembers<User> {
  readonly clientId: string
  readonly scopes: string[]
  readonly expiresAt?: number | undefined
  readonly resource?: URL | undefined
  readonly user?: User | undefined
  readonly extra: Record<string, unknown>
}

/** Set by the class below, which alone can see inside. */
let attach: (auth: AuthInfo, attached: object) => void
let attachedOf: (value: unknown) => object | undefined
let issuerOf: (auth: AuthInfo) => string | undefined

/**
 * Who is calling, verified: what `mcpAuth` leaves on `req.auth`. The shape of the official SDK's
 * `AuthInfo`, so that its transports find it, plus `user`.
 *
 * `token` can be read, but is not enumerable: it appears neither in `JSON.stringify(auth)`
 * nor in `util.inspect(auth)`, nor in a copy made with spread.
 */
export class AuthInfo<User = unknown> {
  readonly #token: string
  readonly #issuer: string | undefined
  /** What the face that made it keeps with it. */
  #attached: object | undefined
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

  private constructor(token: string, members: AuthInfoMembers<User>, issuer: string | undefined) {
    this.#token = token
    this.#issuer = issuer
    this.clientId = members.clientId
    this.scopes = members.scopes
    this.extra = members.extra
    if (members.expiresAt !== undefined) this.expiresAt = members.expiresAt
    if (members.resource !== undefined) this.resource = members.resource
    if (members.user !== undefined) this.user = members.user
  }

  /** What the gate makes of a token. @internal */
  static of<User>(token: string, members: AuthInfoMembers<User>, issuer?: string): AuthInfo<User> {
    return new AuthInfo(token, members, issuer)
  }

  /** The access token as it was sent. */
  get token(): string {
    return this.#token
  }

  static {
    attach = (auth, attached) => {
      auth.#attached = attached
    }
    attachedOf = (value) =>
      typeof value === 'object' && value !== null && #attached in value ? value.#attached : undefined
    issuerOf = (auth) => (#issuer in auth ? auth.#issuer : undefined)
    // Without the token, whatever options `util.inspect` is given.
    Object.defineProperty(AuthInfo.prototype, inspect.custom, {
      value(this: AuthInfo): object {
        return { ...this }
      },
    })
  }
}

/** Keeps `attached` with `auth`, unseen by anybody else. */
export function attachTo(auth: AuthInfo, attached: object): void {
  attach(auth, attached)
}

/** What was attached to `value`, when it is an `AuthInfo` that something was attached to. */
export function attachedTo(value: unknown): object | undefined {
  return attachedOf(value)
}

/** Identifies the issuer of a token: with the subject, it is who the token stands for. */
export function tokenIssuer(auth: AuthInfo): string | undefined {
  return issuerOf(auth)
}
