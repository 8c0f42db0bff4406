import type { GateValues } from '../gate-values.ts'

/** The options of a verifier that may differ from those of its gate. */
export interface OwnValues {
  /** The accepted issuers. Absent if they are those of the gate, or not checked. */
  readonly issuers?: readonly string[] | undefined
  /** The accepted audiences. Absent if they are those of the gate, or not checked. */
  readonly audiences?: readonly string[] | undefined
  /** `true` if the application wants the difference. */
  readonly allowMismatch: boolean
}

/**
 * Returns a function that writes a warning for a gate whose clients get tokens that the verifier rejects: its issuer or its
 * audience differs. Each gate is warned about once.
 */
export function warnsOfMismatch(
  verifier: 'jwtVerifier' | 'introspectionVerifier',
  { issuers, audiences, allowMismatch }: OwnValues,
): (gate: GateValues) => void {
  const seen = new WeakSet<GateValues>()
  return (gate) => {
    if (allowMismatch || seen.has(gate)) return
    seen.add(gate)
    const { authorizationServers, issuer, resource } = gate
    if (issuers?.some((own) => own === issuer || (authorizationServers?.includes(own) ?? true)) === false)
      warn(verifier, 'issuer', issuers, 'the option issuer', issuer)
    if (resource !== undefined && audiences?.includes(resource) === false)
      warn(verifier, 'audience', audiences, 'the option resource', resource)
  }
}

function warn(
  verifier: string,
  option: 'issuer' | 'audience',
  own: readonly string[],
  ofGate: string,
  value: string,
): void {
  const accepted = own.map((one) => JSON.stringify(one)).join(', ')
  process.emitWarning(
    `${verifier}: the option ${option} is ${accepted}, but ${ofGate} of the gate is ${JSON.stringify(value)}. Tokens that clients request for the gate are probably refused. Set both to the same value or, if the difference is intended, set the option allowMismatch of ${verifier} to true.`,
    { type: 'KitMcpWarning' },
  )
}
