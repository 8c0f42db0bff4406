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
