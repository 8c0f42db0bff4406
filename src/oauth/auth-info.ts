import { inspect } from 'node:util'
import type { Actor } from './actor.ts'

/** The members of `AuthInfo` other than the token. */
export type AuthInfoMembers<User> = {
  readonly [Member in keyof Omit<AuthInfo<User>, 'token'>]: AuthInfo<User>[Member] | undefined
} & Pick<AuthInfo<User>, 'clientId' | 'scopes' | 'extra'>

/** The data of an `AuthInfo` that is neither printed nor copied. */
interface HiddenData {
  readonly token: string
  readonly issuer: string | undefined
  /** Data of the middleware that authenticated the request. */
  attached: object | undefined
}

/** Returns its argument, to which a class that extends this function adds its private fields. */
function Given(target: object): object {
  return target
}

/**
 * Keeps the hidden data in a private field of the object `extra`. A `Proxy`, an object made with `Object.create`, and a copy
 * that keeps the prototype do not have the private fields of an `AuthInfo`, but they have its `extra`.
 */
class Holder extends (Given as unknown as new (target: object) => object) {
  readonly #hidden: HiddenData

  constructor(extra: object, hidden: HiddenData) {
    super(extra)
    this.#hidden = hidden
  }

  static read(extra: unknown): HiddenData | undefined {
    return typeof extra === 'object' && extra !== null && #hidden in extra ? extra.#hidden : undefined
  }
}

/**
 * The verified token of a request and its user. `mcpAuth` sets it as `req.auth`; handlers get it as `context.auth`. It has
 * the shape of the official SDK's `AuthInfo`, so that the SDK's transports find it, plus `user` and `act`.
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
  /** The party that acts for the user (the claim `act`, RFC 8693 §4.1). Absent if the user or the client calls directly. */
  declare readonly act?: Actor
  /** The `extra` of the verifier's result. */
  readonly extra: Record<string, unknown>

  private constructor(token: string, members: AuthInfoMembers<User>, issuer: string | undefined) {
    this.clientId = members.clientId
    this.scopes = members.scopes
    this.extra = { ...members.extra }
    new Holder(this.extra, { token, issuer, attached: undefined })
    if (members.expiresAt !== undefined) this.expiresAt = members.expiresAt
    if (members.resource !== undefined) this.resource = members.resource
    if (members.user !== undefined) this.user = members.user
    if (members.act !== undefined) this.act = members.act
  }

  /** Creates the `AuthInfo` of an accepted token. @internal */
  static of<User>(token: string, members: AuthInfoMembers<User>, issuer?: string): AuthInfo<User> {
    return new AuthInfo(token, members, issuer)
  }

  /** The access token as it was sent. Undefined in a copy with another `extra`. */
  get token(): string {
    return Holder.read(this.extra)?.token as string
  }

  static {
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
  const hidden = hiddenIn(auth)
  if (hidden !== undefined) hidden.attached = attached
}

/** Returns the object that was attached to `value`; `undefined` if `value` is not an `AuthInfo` or has none. */
export function attachedTo(value: unknown): object | undefined {
  return hiddenIn(value)?.attached
}

/** Returns the identity of the token's issuer. Issuer and subject together identify the user. */
export function tokenIssuer(auth: AuthInfo): string | undefined {
  return hiddenIn(auth)?.issuer
}

/** A copy made with spread has the same `extra`, but is not an `AuthInfo`. */
function hiddenIn(value: unknown): HiddenData | undefined {
  return value instanceof AuthInfo ? Holder.read(value.extra) : undefined
}
