/** What says which origin a request was sent to. */
export interface OriginSource {
  readonly protocol: 'http' | 'https'
  /** The `Host` header. */
  readonly host: string | undefined
  /** Value of a request header, by its lower-case name. */
  header(name: string): string | undefined
}

/**
 * Origin of a request's URL, or undefined when the host is none. Where a proxy is trusted,
 * `X-Forwarded-Proto` and `X-Forwarded-Host` or else `Forwarded` (RFC 7239) say what the client used.
 */
export function requestOrigin(source: OriginSource, trustsProxy: boolean): string | undefined {
  let { protocol, host }: { protocol: string; host: string | undefined } = source
  if (trustsProxy) {
    const forwarded = firstForwarded(source.header('forwarded'))
    protocol = firstValue(source.header('x-forwarded-proto')) ?? forwarded.proto ?? protocol
    host = firstValue(source.header('x-forwarded-host')) ?? forwarded.host ?? host
  }
  if (host === undefined || !/^https?$/i.test(protocol) || !isHost(host)) return undefined
  const url = `${protocol}://${host}`
  return URL.canParse(url) ? new URL(url).origin : undefined
}

/** The longest name in the DNS, with a port. */
const MAX_HOST = 253 + ':65535'.length

function isHost(text: string): boolean {
  return text.length <= MAX_HOST && /^[\w.\-:[\]]+$/.test(text)
}

function firstValue(list: string | undefined): string | undefined {
  const first = list?.split(',', 1)[0]?.trim()
  return first === '' ? undefined : first
}

/** Optional whitespace, a name, and an equals sign. */
const PAIR_NAME = /[ \t]*([!#$%&'*+.^_`|~\w-]+)[ \t]*=[ \t]*/y
/** A quoted string (RFC 9110 §5.6.4), or everything up to the end of the pair. */
const PAIR_VALUE = /"((?:[^"\\]|\\.)*)"|[^",;]*/y
const PAIR_END = /[ \t]*(;|,|$)/y
/** The rest of a pair that is not of the form name=value. */
const MALFORMED_PAIR = /[^",;]*/y

/**
 * Reads `proto` and `host` of the first element of a `Forwarded` header (RFC 7239 §4), which is the client's side. Skips
 * pairs that have no value. Reads nothing of a header with a stray quotation mark or with a repeated parameter.
 */
function firstForwarded(value: string | undefined): { proto?: string; host?: string } {
  const pairs = new Map<string, string>()
  const text = value ?? ''
  for (let at = 0; at < text.length; ) {
    const name = matchAt(PAIR_NAME, text, at)
    const given = name && matchAt(PAIR_VALUE, text, at + name[0].length)
    const length =
      name === undefined || given === undefined
        ? (matchAt(MALFORMED_PAIR, text, at)?.[0].length ?? 0)
        : name[0].length + given[0].length
    const end = matchAt(PAIR_END, text, at + length)
    if (end === undefined) return {}
    if (name !== undefined && given !== undefined) {
      const key = (name[1] as string).toLowerCase()
      if (pairs.has(key)) return {}
      pairs.set(key, given[1] === undefined ? given[0].trimEnd() : given[1].replace(/\\(.)/g, '$1'))
    }
    if (end[1] !== ';') break
    at += length + end[0].length
  }
  const proto = pairs.get('proto') || undefined
  const host = pairs.get('host') || undefined
  return { ...(proto !== undefined && { proto }), ...(host !== undefined && { host }) }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at
  return pattern.exec(text) ?? undefined
}
