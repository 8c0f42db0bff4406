/**
 * Parses the parameters of a `Bearer` challenge (RFC 9110 §11.6.1) strictly: every value is a quoted string, and no
 * parameter appears twice. Throws if the header has another form.
 */
export function parseChallenge(header: string): Record<string, string> {
  const scheme = 'Bearer '
  if (!header.startsWith(scheme)) throw new Error(`not a Bearer challenge: ${header}`)
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

/** One challenge of a `WWW-Authenticate` header. */
export interface Challenge {
  readonly scheme: string
  readonly token68: string | undefined
  readonly parameters: Readonly<Record<string, string>>
}

const TOKEN = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]+"
const QUOTED = '"(?:[\\t \\x21\\x23-\\x5B\\x5D-\\x7E\\x80-\\xFF]|\\\\[\\t \\x21-\\x7E\\x80-\\xFF])*"'

/**
 * Parses the challenges of a `WWW-Authenticate` value by the grammar of RFC 9110 §11.6.1 and §11.2: tokens, quoted
 * strings and `token68`, optional white space around `=` and commas. Throws if the value does not match the grammar, and
 * if one challenge repeats a parameter.
 */
export function parseChallenges(header: string): Challenge[] {
  const found: { scheme: string; token68: string | undefined; parameters: Record<string, string> }[] = []
  let at = 0
  const take = (pattern: string): RegExpExecArray | undefined => {
    const expression = new RegExp(pattern, 'y')
    expression.lastIndex = at
    const match = expression.exec(header) ?? undefined
    if (match !== undefined) at = expression.lastIndex
    return match
  }
  const fail = (): never => {
    throw new Error(`malformed at ${at}: ${header}`)
  }
  for (let first = true; first || at < header.length; first = false) {
    if (!first && take('[ \\t]*,[ \\t]*') === undefined) fail()
    const parameter = found.length === 0 ? undefined : take(`(${TOKEN})[ \\t]*=[ \\t]*(${TOKEN}|${QUOTED})`)
    const current = found.at(-1)
    if (parameter !== undefined && current !== undefined) {
      if (current.token68 !== undefined) fail()
      addParameter(current.parameters, parameter, fail)
      continue
    }
    const scheme = take(TOKEN)?.[0] ?? fail()
    const challenge = { scheme, token68: undefined as string | undefined, parameters: {} }
    found.push(challenge)
    if (take(' +') === undefined) continue
    const own = take(`(${TOKEN})[ \\t]*=[ \\t]*(${TOKEN}|${QUOTED})`)
    if (own !== undefined) addParameter(challenge.parameters, own, fail)
    else challenge.token68 = take('[A-Za-z0-9\\-._~+/]+=*')?.[0] ?? fail()
  }
  return found
}

function addParameter(
  parameters: Record<string, string>,
  [, name = '', value = '']: RegExpExecArray,
  fail: () => never,
): void {
  const key = name.toLowerCase()
  if (Object.hasOwn(parameters, key)) fail()
  parameters[key] = value.startsWith('"') ? value.slice(1, -1).replace(/\\(.)/g, '$1') : value
}
