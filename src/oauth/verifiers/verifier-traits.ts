import type { GateValues, VerifyTokenInput } from '../gate-values.ts'

/** The properties of a verifier that a gate, and verifiers in front of it, have to know. */
export interface VerifierTraits {
  /**
   * Called with each gate that uses the verifier.
   * @throws {KitMcpConfigError} if the verifier cannot be used by this gate.
   */
  readonly join?: ((gate: GateValues) => void) | undefined
  /** Returns the thumbprint of the client's certificate (RFC 8705 §3.1); `undefined` if there is none. Never throws. */
  readonly readCertificate?: ((input: VerifyTokenInput) => string | undefined) | undefined
  /** Returns `false` if the grant of a user's token has ended, for tokens that were verified before. Never rejects. */
  readonly isLive?: ((user: unknown) => Promise<boolean>) | undefined
}

const traits = new WeakMap<object, VerifierTraits>()

/** Returns the traits of a verifier. Those of a function of the application are empty. */
export function traitsOf(verifier: object): VerifierTraits {
  return traits.get(verifier) ?? {}
}

/** Registers the traits of a verifier. One in front of another verifier has the traits of that one. */
export function withTraits<Verifier extends object>(verifier: Verifier, own: VerifierTraits): Verifier {
  traits.set(verifier, own)
  return verifier
}
