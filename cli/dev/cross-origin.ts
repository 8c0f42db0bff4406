import type { RequestListener } from 'node:http'

/** The paths that pages of other origins may request. The consent page and `/auth` are not among them. */
const OPEN = /^\/(?:\.well-known\/|(?:reg|token|jwks|me)(?:[/?]|$)|token\/)/

/**
 * Lets pages of every origin register, exchange codes, and read metadata. Credentials of the browser, such as cookies, are not
 * allowed.
 */
export function withCors(listener: RequestListener): RequestListener {
  return (req, res) => {
    if (req.headers.origin === undefined || !OPEN.test(req.url ?? '/')) return listener(req, res)
    if (req.method !== 'OPTIONS' || req.headers['access-control-request-method'] === undefined) {
      // oidc-provider sets the same headers for some paths.
      const { writeHead } = res
      res.writeHead = ((...args: Parameters<typeof writeHead>) => {
        res.setHeader('Access-Control-Allow-Origin', '*')
        res.setHeader('Access-Control-Expose-Headers', 'WWW-Authenticate, DPoP-Nonce, Retry-After')
        return Reflect.apply(writeHead, res, args) as typeof res
      }) as typeof writeHead
      return listener(req, res)
    }
    res.writeHead(204, {
      'Access-Control-Allow-Origin': '*',
      'Access-Control-Allow-Methods': 'GET, POST, PUT, DELETE',
      'Access-Control-Allow-Headers':
        'Authorization, Content-Type, Accept, DPoP, MCP-Protocol-Version, traceparent, tracestate, baggage',
      'Access-Control-Max-Age': '600',
      Vary: 'Origin',
    })
    res.end()
  }
}
