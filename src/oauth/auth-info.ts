import { inspect } from 'node:util'

/** The members of `AuthInfo` other than the token. */
export interface AuthInfoMembers<User> {
  readonly clientId: string
  readonly scopes: string[]
  readonly expiresAt?: number | undefined
  readonly resource?: URL | undefined
  readonly user?: User | undefined
  readonly extra: Record<string, unknown>
}

/** Set by the class below: only its static block can read the private fields. */
let attach: (auth: AuthInfo, attached: object) => void
let attachedOf: (value: unknown) => object | undefined
let issuerOf: (auth: AuthInfo) => string | undefined

/**
 * The verified token of a request and its user. `mcpAuth` sets it as `req.auth`; handlers get it as `context.auth`. It has
 * the shape of the official SDK's `AuthInfo`, so that the SDK's transports find it, plus `user`.
 *
 * `token` can be read but is not enumerable: `JSON.stringify(auth)`, `util.inspect(auth)`, and copies made with spread do
 * not contain it.
 * @example
 * ```ts
 * import type { AuthInfo, NodeMiddleware } from 'mcp-gatekit'
 *
 * const logClient: NodeMiddleware = (req, _res, next) => {
 *   const auth = req.auth as AuthInfo | undefined
 *   console.log(auth?.clientId, auth?.scopes)
 *   next?.()
 * }
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc6750#section-2.1
 */
export class AuthInfo<User = unknown> {
  readonly #token: string
  readonly #issuer: string | undefined
  /** Data of the middleware that authenticated the request. */
  #attached: object | undefined
  /** The OAuth client; `''` if the verifier did not name it. */
  readonly clientId: string
  /** The scopes as granted; broader ones are not expanded. */
  readonly scopes: string[]
  /** The expiry in seconds since 1970. Absent if the verifier did not name it. */
  declare readonly expiresAt?: number
  /** The resource that the token was issued for (RFC 8707). */
  declare readonly resource?: URL
  /** The `user` of the verifier's result. */
  declare readonly user?: User
  /** The `extra` of the verifier's result. */
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

  /** Creates the `AuthInfo` of an accepted token. @internal */
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
    // The token is left out with every option of `util.inspect`.
    Object.defineProperty(AuthInfo.prototype, inspect.custom, {
      value(this: AuthInfo): object {
        return { ...this }
      },
    })
  }
}

/** Attaches an object to `auth`, which only `attachedTo` can read. */
export function attachTo(auth: AuthInfo, attached: object): void {
  attach(auth, attached)
}

/** Returns the object that was attached to `value`; `undefined` if `value` is not an `AuthInfo` or has none. */
export function attachedTo(value: unknown): object | undefined {
  return attachedOf(value)
}

/** Returns the identity of the token's issuer. Issuer and subject together identify the user. */
export function tokenIssuer(auth: AuthInfo): string | undefined {
  return issuerOf(auth)
}
