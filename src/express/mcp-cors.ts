import cors from 'cors'
import { CORS_EXPOSED_HEADERS, CORS_METHODS, corsRequestHeaders } from '../oauth/cors.ts'
import { checkKnownOptions, invalidOption, isOptionsObject } from '../oauth/option-checks.ts'
import type { NodeMiddleware } from './node-http.ts'

/** One origin or a rule for origins, as the `cors` package takes it. */
export type CorsOrigin = boolean | string | RegExp | (boolean | string | RegExp)[]

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
    throw invalidOption('mcpCors', `takes an object such as { origin: 'https://app.example.com' }`)
  checkKnownOptions('mcpCors', options, ['origin'])
  const { origin = '*' } = options
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
    middleware(req as Parameters<typeof middleware>[0], res, next)
  }
}
