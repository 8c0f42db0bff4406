/** One or more parameters of a media type (RFC 9110 section 5.6.6). */
const PARAMETERS =
  /^(?:; *[\w!#$%&'*+.^`|~-]+ *= *(?:"(?:[\v !#-[\]-~\x80-\xff]|\\[\v -\xff])*"|[\w!#$%&'*+.^`|~-]+) *)+$/

/**
 * Returns `true` if a `Content-Type` names `application/json`, as the SDK reads it: with any parameters, invalid ones too. If they
 * are invalid, a comma means that there may be two types.
 */
export function isJsonContentType(header: string | null): boolean {
  if (header === 'application/json') return true
  const [, type = '', parameters = ''] = /^([^;]*)(.*)$/s.exec(header ?? '') ?? []
  if (type.trim().toLowerCase() !== 'application/json') return false
  return !parameters.includes(',') || PARAMETERS.test(parameters)
}
