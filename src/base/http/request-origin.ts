/** The parts of a request that determine its origin. */
export interface OriginSource {
  readonly protocol: 'http' | 'https'
  /** The `Host` header. */
  readonly host: string | undefined
  /** Returns the value of a request header by its lowercase name. */
  header(name: string): string | undefined
}

/**
 * Returns the origin of a request's URL; `undefined` if the host is invalid. If a proxy is trusted, `X-Forwarded-Proto` and
 * `X-Forwarded-Host`, or else `Forwarded` (RFC 7239), contain the protocol and host that the client used.
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

/** The maximum length of a DNS name with a port. */
const MAX_HOST = 253 + ':65535'.length

function isHost(value: string): boolean {
  return value.length <= MAX_HOST && /^[\w.\-:[\]]+$/.test(value)
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
 * Reads `proto` and `host` of the first element of a `Forwarded` header (RFC 7239 §4), which describes the client. Skips
 * pairs that have no value. Reads nothing of a header with a stray quotation mark or with a repeated parameter.
 */
function firstForwarded(value: string | undefined): { proto?: string; host?: string } {
  const pairs = new Map<string, string>()
  const text = value ?? ''
  for (let at = 0; at < text.length; ) {
    const name = matchAt(PAIR_NAME, text, at)
    const pairValue = name && matchAt(PAIR_VALUE, text, at + name[0].length)
    const length =
      name === undefined || pairValue === undefined
        ? (matchAt(MALFORMED_PAIR, text, at)?.[0].length ?? 0)
        : name[0].length + pairValue[0].length
    const end = matchAt(PAIR_END, text, at + length)
    if (end === undefined) return {}
    if (name !== undefined && pairValue !== undefined) {
      const key = (name[1] as string).toLowerCase()
      if (pairs.has(key)) return {}
      pairs.set(
        key,
        pairValue[1] === undefined ? pairValue[0].trimEnd() : pairValue[1].replace(/\\(.)/g, '$1'),
      )
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
