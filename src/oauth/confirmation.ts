/** The registered methods that bind a token to a key: IANA "JWT Confirmation Methods" (RFC 7800 §6.2). */
const METHODS: readonly string[] = ['jwk', 'jwe', 'kid', 'jku', 'x5t#S256', 'osc', 'jkt']

/**
 * The way in which a token is bound to a key:
 * - `none`: It is a plain Bearer token.
 * - `dpop`: The presenter proves the key whose thumbprint is `jkt` (RFC 9449 §6.1).
 * - `other`: Nothing here verifies the binding, so the token must not be accepted.
 */
export type Binding = 'none' | 'dpop' | 'other'

/**
 * Reads the binding from a `cnf` claim. Members next to `jkt` that are not registered methods are ignored (RFC 7800 §3.1).
 * A `cnf` that has members but no registered method counts as `other`, because the token is bound in some way.
 */
export function bindingOf(cnf: unknown): Binding {
  if (cnf === undefined || cnf === null) return 'none'
  if (typeof cnf !== 'object' || Array.isArray(cnf)) return 'other'
  const methods = METHODS.filter((method) => method in cnf)
  if (methods.length === 0) return Object.keys(cnf).length === 0 ? 'none' : 'other'
  return methods.length === 1 && methods[0] === 'jkt' ? 'dpop' : 'other'
}
