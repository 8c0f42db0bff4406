import { telemetryOptions } from '../../options.ts'

/** A proxy between this process and a target. */
export interface HttpProxy {
  /** `http:` or `https:`, without credentials. */
  readonly url: URL
  /** The value of `Proxy-Authorization`, if the proxy's URL has credentials. */
  readonly authorization: string | undefined
}

type Environment = Readonly<Record<string, string | undefined>>

/**
 * Returns the proxy that `HTTP_PROXY`, `HTTPS_PROXY`, and `NO_PROXY` name for a target, if `NODE_USE_ENV_PROXY` is `1` or
 * Node was started with `--use-env-proxy`. The variables mean the same as in Node 24, in every version of Node. Names in
 * lower case have priority over upper case.
 * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if the proxy is not an `http:` or `https:` URL
 */
export function readEnvProxy(target: URL, environment: Environment = process.env): HttpProxy | undefined {
  const flags = [...process.execArgv, ...(environment.NODE_OPTIONS ?? '').split(' ')]
  if (environment.NODE_USE_ENV_PROXY !== '1' && !flags.includes('--use-env-proxy')) return undefined
  const name = target.protocol === 'https:' ? 'HTTPS_PROXY' : 'HTTP_PROXY'
  const read = (variable: string): string =>
    (environment[variable.toLowerCase()] ?? environment[variable] ?? '').trim()
  const proxy = read(name)
  if (proxy === '' || bypasses(read('NO_PROXY'), target)) return undefined
  const url = URL.canParse(proxy) ? new URL(proxy) : undefined
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw telemetryOptions.unusableOption(
      `the environment variable ${name}`,
      'must be an absolute URL that starts with http:// or https://',
    )
  }
  const { username, password } = url
  const credentials = `${decode(username)}:${decode(password)}`
  url.username = ''
  url.password = ''
  return {
    url,
    authorization:
      credentials === ':' ? undefined : `Basic ${Buffer.from(credentials, 'utf8').toString('base64')}`,
  }
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text)
  } catch {
    return text
  }
}

/**
 * Returns `true` if `NO_PROXY` contains the target: `*`, `example.com`, `.example.com` or `*.example.com` for subdomains, an
 * IP address, or a range `10.0.0.1-10.0.0.9`, each with or without a port.
 */
function bypasses(noProxy: string, target: URL): boolean {
  const host = target.hostname.replace(/^\[|\]$/g, '').toLowerCase()
  const port = target.port === '' ? (target.protocol === 'https:' ? '443' : '80') : target.port
  return noProxy
    .toLowerCase()
    .split(/[\s,]+/)
    .filter((entry) => entry !== '')
    .some((entry) => {
      if (entry === '*') return true
      const [, named = '', namedPort] = /^(\[[^\]]*\]|[^:]*)(?::(\d+))?$/.exec(entry) ?? [undefined, entry]
      if (namedPort !== undefined && namedPort !== port) return false
      return matchesHost(named.replace(/^\[|\]$/g, ''), host)
    })
}

function matchesHost(pattern: string, host: string): boolean {
  if (pattern.startsWith('*.') || pattern.startsWith('.')) return host.endsWith(pattern.replace(/^\*/, ''))
  const [from, to, ...rest] = pattern.split('-').map(readIpv4)
  const address = readIpv4(host)
  if (from !== undefined && to !== undefined && address !== undefined && rest.length === 0)
    return from <= address && address <= to
  return pattern === host
}

/** Returns an IPv4 address as a number, or `undefined` for any other string. */
function readIpv4(text: string): number | undefined {
  const bytes = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text)?.slice(1).map(Number)
  if (bytes === undefined || bytes.some((byte) => byte > 255)) return undefined
  return bytes.reduce((address, byte) => address * 256 + byte, 0)
}
