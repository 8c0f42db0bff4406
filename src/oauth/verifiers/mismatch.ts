import type { GateValues } from '../gate-values.ts'

/** The options of a verifier that may differ from those of its gate. */
export interface OwnValues {
  /** The accepted issuers. Absent if they are those of the gate, or not checked. */
  readonly issuers?: readonly string[] | undefined
  /** The accepted audiences. Absent or `false` if they are those of the gate, or not checked. */
  readonly audiences?: readonly string[] | false | undefined
  /** `true` if the application wants the difference. */
  readonly allowMismatch: boolean
}

/**
 * Returns a function that writes a warning for a gate whose clients get tokens that the verifier rejects: its issuer or its
 * audience differs. Gates with the same values, such as those of `mcpAuth` and `protectedResourceRouter`, get one warning.
 */
export function warnsOfMismatch(
  verifier: 'jwtVerifier' | 'introspectionVerifier',
  { issuers, audiences, allowMismatch }: OwnValues,
): (gate: GateValues) => void {
  const warned = new Set<string>()
  return ({ authorizationServers, issuer, resource }) => {
    if (allowMismatch) return
    const differences: string[] = []
    if (issuers?.some((own) => own === issuer || (authorizationServers?.includes(own) ?? true)) === false)
      differences.push(differenceOf('issuer', issuers, 'the option issuer', issuer))
    if (resource !== undefined && audiences && !audiences.includes(resource))
      differences.push(differenceOf('audience', audiences, 'the option resource', resource))
    const difference = differences.join(', and ')
    if (difference === '' || warned.has(difference)) return
    warned.add(difference)
    process.emitWarning(
      `${verifier}: ${difference}. Tokens that clients request for the gate are probably refused. Give the verifier and the gate the same values or, if the difference is intended, set the option allowMismatch of ${verifier} to true.`,
      { type: 'KitMcpWarning' },
    )
  }
}

function differenceOf(
  option: 'issuer' | 'audience',
  own: readonly string[],
  ofGate: string,
  value: string,
): string {
  const accepted = own.map((one) => JSON.stringify(one)).join(', ')
  return `the option ${option} is ${accepted}, but ${ofGate} of the gate is ${JSON.stringify(value)}`
}
