/**
 * The parameters of a `Bearer` challenge (RFC 9110 §11.6.1), read strictly: every value a quoted string,
 * no parameter twice. Throws when it is anything else.
 */
export function parseChallenge(header: string): Record<string, string> {
  const scheme = 'Bearer '
  if (!header.startsWith(scheme)) throw new Error(`no Bearer challenge: ${header}`)
  const parameters: Record<string, string> = {}
  const parameter = /([a-z_]+)="((?:[\x20\x21\x23-\x5B\x5D-\x7E]|\\[\x20-\x7E])*)"(?:, |$)/y
  parameter.lastIndex = scheme.length
  while (parameter.lastIndex < header.length) {
    const at = parameter.lastIndex
    const [, name, value] = parameter.exec(header) ?? []
    if (name === undefined || value === undefined || name in parameters) {
      throw new Error(`malformed at ${at}: ${header}`)
    }
    parameters[name] = value.replace(/\\(.)/g, '$1')
  }
  if (header.endsWith(', ')) throw new Error(`malformed at the end: ${header}`)
  return parameters
}
