import { createHmac } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { tryOrUndefined } from '../../../src/base/try-or-undefined.ts'
import { namesLoopback } from '../../loopback.ts'

/** The user agent of the requests that `mcp-gatekit dev` sends itself. They are not observed. */
export const OWN_USER_AGENT = 'mcp-gatekit-dev'

/** The maximum length of a recorded header, path, or claim. */
const MAX_TEXT = 256
const MAX_CHALLENGE = 1024
/** The maximum length of a token whose claims are read. Longer ones do not fit in the headers of Node.js. */
const MAX_TOKEN = 16_384

/** A request to the user's server, as it was received. */
export type ObservedRequest = ReturnType<typeof observedRequest>

export function observedRequest(id: string, req: IncomingMessage, res: ServerResponse) {
  const startedAt = performance.now()
  const time = new Date().toISOString()
  const { headers, method = 'GET' } = req
  const token = /^(?:Bearer|DPoP) +(\S+) *$/i.exec(headers.authorization ?? '')?.[1]

  const clean = (
    value: string | readonly string[] | undefined,
    max: number = MAX_TEXT,
  ): string | undefined => {
    if (value === undefined) return undefined
    // The header can be long, so it is cut before the token is searched.
    const text = String(value).slice(0, max + MAX_TOKEN)
    return (token === undefined ? text : text.replaceAll(token, '[token]')).slice(0, max)
  }
  const about = { host: clean(headers.host), origin: clean(headers.origin) }
  return {
    /** `true` if the server has emitted an event during the request. */
    hasEvents: false,

    /** The part of an event that names its request. */
    toJSON(): object {
      return { id, unverified: claimsOf(token), ...about, agent: clean(headers['user-agent']) }
    },

    /** Returns the event of the completed request, or `undefined` if it is not a request of an MCP client. */
    event(key: string): Readonly<Record<string, unknown>> | undefined {
      const path = pathOf(req)
      const challenge = headerOf(res, 'www-authenticate')
      if (headers['user-agent']?.startsWith(OWN_USER_AGENT)) return undefined
      if (!this.hasEvents && challenge === undefined && !isOfClient(req, path)) return undefined
      const attributes = {
        'http.request.method': method,
        'url.path': clean(path),
        'http.response.status_code': res.headersSent ? res.statusCode : 499,
        'client.address': req.socket.remoteAddress,
        'user_agent.original': clean(headers['user-agent']),
        ...about,
        preflight: isPreflight(req) ? true : undefined,
        'mcp.session.id': clean(headers['mcp-session-id'] ?? headerOf(res, 'mcp-session-id')),
        'mcp.method.name': clean(headers['mcp-method']),
        'gen_ai.tool.name': headers['mcp-method'] === 'tools/call' ? clean(headers['mcp-name']) : undefined,
        token: token === undefined ? undefined : fingerprintOf(key, token),
        challenge: clean(challenge, MAX_CHALLENGE),
        covered: this.hasEvents,
        duration_ms: Math.round((performance.now() - startedAt) * 1000) / 1000,
      }
      const level = res.statusCode >= 400 ? 'warn' : 'info'
      return { name: 'dev.request', time, level, sessionId: `request-${id}`, request: this, attributes }
    },
  }
}

/** Reads the claims of a JWT without checking its signature. Each one is shortened. */
function claimsOf(token: string | undefined): object | undefined {
  const payload = token === undefined || token.length > MAX_TOKEN ? undefined : token.split('.', 4)[1]
  if (payload === undefined) return undefined
  return tryOrUndefined(() => {
    const claims = JSON.parse(Buffer.from(payload, 'base64url').toString()) as Record<string, unknown>
    return {
      ...textOf('iss', claims.iss),
      ...textOf('aud', claims.aud),
      ...(typeof claims.exp === 'number' && { exp: timeOf(claims.exp) }),
      ...textOf('scope', claims.scope ?? claims.scp),
      ...textOf('client_id', claims.client_id ?? claims.azp ?? claims.cid),
    }
  })
}

function textOf(name: string, value: unknown): Record<string, string> {
  const texts = Array.isArray(value) && value.slice(0, 8).filter((one) => typeof one === 'string')
  const text = texts ? texts.join(' ') : value
  return typeof text === 'string' ? { [name]: text.slice(0, MAX_TEXT) } : {}
}

function timeOf(seconds: number): string {
  const time = new Date(seconds * 1000)
  return Number.isNaN(time.getTime()) ? String(seconds) : time.toISOString()
}

/** Returns the path without its query, which may contain secrets. */
function pathOf(req: IncomingMessage): string {
  const { originalUrl } = req as { originalUrl?: unknown }
  const url = typeof originalUrl === 'string' ? originalUrl : (req.url ?? '/')
  return url.slice(0, MAX_TEXT).split('?', 1)[0] as string
}

/** Returns a header of a response. Headers that were passed to `writeHead` are only in the text that was sent. */
function headerOf(res: ServerResponse, name: string): string | undefined {
  const value = res.getHeader(name)
  if (value !== undefined) return String(value)
  const { _header: sent } = res as { _header?: unknown }
  if (typeof sent !== 'string') return undefined
  const line = sent.split('\r\n').find((one) => one.toLowerCase().startsWith(`${name}:`))
  return line?.slice(name.length + 1).trim()
}

function isPreflight({ method, headers }: IncomingMessage): boolean {
  return method === 'OPTIONS' && headers['access-control-request-method'] !== undefined
}

const METADATA_PATH =
  /^\/\.well-known\/(?:oauth-protected-resource|oauth-authorization-server|openid-configuration)\b/

/** Returns `true` if MCP clients send such requests, or attackers in the place of one. */
function isOfClient(req: IncomingMessage, path: string): boolean {
  const { host, authorization, accept = '', 'access-control-request-headers': asked = '' } = req.headers
  if (host !== undefined && !namesLoopback(host)) return true
  if (METADATA_PATH.test(path) || authorization !== undefined || accept.includes('text/event-stream'))
    return true
  if (Object.keys(req.headers).some((name) => name.startsWith('mcp-'))) return true
  return isPreflight(req) && /\b(?:authorization|content-type|mcp-)/i.test(asked)
}

/**
 * Returns a name for a token, by which requests with the same token are recognized. The token cannot be derived from it.
 * @param key a secret that changes at every start
 */
export function fingerprintOf(key: string, token: string): string {
  return createHmac('sha256', key).update(token).digest('hex').slice(0, 16)
}
