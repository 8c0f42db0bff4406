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
  if (host === undefined || !/^https?$/i.test(protocol) || !/^[\w.\-:[\]]+$/.test(host)) return undefined
  const url = `${protocol}://${host}`
  return URL.canParse(url) ? new URL(url).origin : undefined
}

function firstValue(list: string | undefined): string | undefined {
  const first = list?.split(',', 1)[0]?.trim()
  return first === '' ? undefined : first
}

/** `proto` and `host` of the first element of a `Forwarded` header, which is the client's side. */
function firstForwarded(value: string | undefined): { proto?: string; host?: string } {
  const pairs: { proto?: string; host?: string } = {}
  for (const pair of firstValue(value)?.split(';') ?? []) {
    const [, name, text] = /^\s*(proto|host)\s*=\s*"?([^"]*?)"?\s*$/i.exec(pair) ?? []
    if (name !== undefined && text !== undefined && text !== '') {
      pairs[name.toLowerCase() as 'proto' | 'host'] = text
    }
  }
  return pairs
}
