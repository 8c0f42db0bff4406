/**
 * The options of a gate that its verifier may use in place of its own. Each gate has one such object, so that a verifier
 * can tell gates apart.
 */
export interface GateValues {
  readonly issuer: string
  /** The issuers whose tokens the gate tells clients to request. `undefined` if they depend on the request. */
  readonly authorizationServers: readonly string[] | undefined
  /** `undefined` if the gate has no fixed resource. */
  readonly resource: string | undefined
}

const known = new WeakMap<object, GateValues>()

/** The values of the gate that these options describe. Gates made from one options object count as one gate. */
export function gateValuesOf(options: object, given: GateValues): GateValues {
  const { issuer, authorizationServers, resource } = given
  const found = known.get(options)
  const isSame =
    found?.issuer === issuer &&
    found.resource === resource &&
    String(found.authorizationServers) === String(authorizationServers)
  if (isSame) return found
  const values = Object.freeze({ issuer, authorizationServers, resource })
  known.set(options, values)
  return values
}

/** The application's data and the request, as verifiers and `onVerified` get them. */
export interface VerifyContext<App = unknown> {
  /** The return value of the router's `.context()`; `{}` if there is none. */
  readonly context: App
  /** The request being authorized. Do not read its body; behind Express it has none. */
  readonly request: Request
}

/** The argument of a verifier. */
export interface VerifyTokenInput<App = unknown> {
  /**
   * The request being authorized. Do not read its body; behind Express it has none. The object is created when it is
   * first read.
   */
  readonly request: Request
  /** The token of the `Authorization` header; `undefined` if none was sent. */
  readonly bearerToken: string | undefined
  /** The application's data, and the request; `onVerified` gets the same object. */
  readonly context: VerifyContext<App>
  /**
   * The SHA-256 thumbprint (RFC 7638) of the key of a valid DPoP proof; absent for a Bearer token. A key-bound token is
   * rejected without this proof.
   */
  readonly proofKey?: string | undefined
}
