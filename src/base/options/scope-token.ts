/** The rule `scope-token` of RFC 6749 section 3.3: printable ASCII without space, `"`, and `\`. */
const SCOPE_TOKEN = /^[\x21\x23-\x5B\x5D-\x7E]+$/

/** Returns `true` if `value` is a scope as defined in RFC 6749 section 3.3. */
export function isScopeToken(value: unknown): value is string {
  return typeof value === 'string' && SCOPE_TOKEN.test(value)
}
