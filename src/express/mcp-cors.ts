import cors from 'cors'
import { CORS_EXPOSED_HEADERS, CORS_METHODS, corsRequestHeaders } from '../http/cors-headers.ts'
import type { NodeMiddleware } from '../http/node-middleware.ts'
import { isOptionsObject, optionChecksOf } from '../options/option-checks.ts'
import { decideCors } from './cors-decision.ts'

const { checkKnownOptions, invalidKind, invalidOption } = optionChecksOf('mcpCors')

/** One origin or a rule for origins, as the `cors` package takes it. */
export type CorsOrigin = boolean | string | RegExp | (boolean | string | RegExp)[]

/** What `mcpCors()` takes. */
export interface McpCorsOptions {
  /** Which origins may read responses, as in the `cors` package. Default `*`, without credentials. */
  readonly origin?:
    | CorsOrigin
    | ((
        requestOrigin: string | undefined,
        callback: (error: Error | null, origin?: CorsOrigin) => void,
      ) => void)
    | undefined
}

/**
 * CORS for MCP routes: answers preflights and puts the headers on every response, refusals included.
 * Put it before `mcpAuth`.
 * @throws {KitMcpConfigError} for an unknown option.
 */
export function mcpCors(options: McpCorsOptions = {}): NodeMiddleware {
  if (!isOptionsObject(options))
    throw invalidKind('mcpCors', `takes an object such as { origin: 'https://app.example.com' }`, options)
  checkKnownOptions('mcpCors', options, ['origin'])
  const { origin = '*' } = options
  checkOrigin(origin)
  const fixed = { origin, methods: [...CORS_METHODS], exposedHeaders: [...CORS_EXPOSED_HEADERS] }
  const middleware = cors((req, callback) => {
    const asked = req.headers['access-control-request-headers']
    callback(null, {
      ...fixed,
      allowedHeaders: [...corsRequestHeaders(Array.isArray(asked) ? asked.join(',') : asked)],
    })
  })
  return function mcpCors(req, res, next = () => undefined) {
    // Which headers a preflight allows depends on those it asks for.
    if (req.method === 'OPTIONS') res.appendHeader('Vary', 'Access-Control-Request-Headers')
    decideCors(res)
    middleware(req as Parameters<typeof middleware>[0], res, next)
  }
}

function checkOrigin(origin: unknown): void {
  if (typeof origin === 'function') return
  for (const one of Array.isArray(origin) ? origin : [origin]) {
    if (typeof one === 'boolean' || typeof one === 'string' || one instanceof RegExp) continue
    throw invalidOption(
      'origin',
      "must be true, false, a string, a RegExp, an array of these, or a function, as in the package 'cors'",
      one,
    )
  }
}
