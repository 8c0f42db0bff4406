/** The registered methods that bind a token to a key: IANA "JWT Confirmation Methods" (RFC 7800 §6.2). */
const METHODS: readonly string[] = ['jwk', 'jwe', 'kid', 'jku', 'x5t#S256', 'osc', 'jkt']

/** The method that binds a token to a certificate (RFC 8705 §3.1). */
const THUMBPRINT = 'x5t#S256'

/**
 * The way in which a token is bound to a key:
 * - `none`: It is a plain Bearer token.
 * - `dpop`: The presenter proves the key whose thumbprint is `jkt` (RFC 9449 §6.1).
 * - `certificate`: The presenter proves the certificate whose thumbprint is `x5t#S256` (RFC 8705 §3.1).
 * - `other`: Nothing here verifies the binding, so the token must not be accepted.
 */
export type Binding = 'none' | 'dpop' | 'certificate' | 'other'

/**
 * Reads the binding from a `cnf` claim. Members next to `jkt` that are not registered methods are ignored (RFC 7800 §3.1).
 * A `cnf` that has members but no registered method counts as `other`, because the token is bound in some way.
 */
export function bindingOf(cnf: unknown): Binding {
  if (cnf === undefined || cnf === null) return 'none'
  if (typeof cnf !== 'object' || Array.isArray(cnf)) return 'other'
  const methods = METHODS.filter((method) => method in cnf)
  if (methods.length === 0) return Object.keys(cnf).length === 0 ? 'none' : 'other'
  if (methods.length > 1) return 'other'
  if (methods[0] === 'jkt') return 'dpop'
  return methods[0] === THUMBPRINT ? 'certificate' : 'other'
}

/** Returns the thumbprint of the certificate that a token with this `cnf` is bound to; `undefined` for another binding. */
export function certificateBindingOf(cnf: unknown): string | undefined {
  if (bindingOf(cnf) !== 'certificate') return undefined
  const thumbprint = (cnf as Readonly<Record<string, unknown>>)[THUMBPRINT]
  return typeof thumbprint === 'string' ? thumbprint : undefined
}
