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

/**
 * A name, an equals sign, and a quoted string (RFC 9110 §5.6.4) or everything up to the end of the pair; or the rest of a pair that is
 * not of this form.
 */
const PAIR = /[ \t]*([!#$%&'*+.^_`|~\w-]+)[ \t]*=(?:[ \t]*"((?:[^"\\]|\\.)*)"|([^",;]*))|[^",;]*/y
const PAIR_END = /[ \t]*(;|,|$)/y

/**
 * Reads `proto` and `host` of the first element of a `Forwarded` header (RFC 7239 §4), which describes the client. Skips
 * pairs that have no value. Reads nothing of a header with a stray quotation mark or with a repeated parameter.
 */
function firstForwarded(value: string = ''): { proto: string | undefined; host: string | undefined } {
  const pairs = new Map<string, string>()
  const nothing = { proto: undefined, host: undefined }
  for (let at = 0; at < value.length; ) {
    const [pair = '', name, quoted, plain = ''] = matchAt(PAIR, value, at) ?? []
    const end = matchAt(PAIR_END, value, at + pair.length)
    const key = name?.toLowerCase()
    if (end === null || (key !== undefined && pairs.has(key))) return nothing
    if (key !== undefined)
      pairs.set(key, quoted === undefined ? plain.trim() : quoted.replace(/\\(.)/g, '$1'))
    if (end[1] !== ';') break
    at += pair.length + end[0].length
  }
  return { proto: pairs.get('proto') || undefined, host: pairs.get('host') || undefined }
}

function matchAt(pattern: RegExp, text: string, at: number): RegExpExecArray | null {
  pattern.lastIndex = at
  return pattern.exec(text)
}
