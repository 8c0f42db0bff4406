import type { IncomingMessage, ServerResponse } from 'node:http'
import { boundedFetch, readBounded } from '../base/http/bounded-fetch.ts'
import type { KitContext } from '../mcp/router/context.ts'
import { AuthInfo } from '../oauth/auth-info.ts'
import { notLoaded } from './document.ts'
import type { RouteRequest } from './request-plan.ts'

async function loadInject() {
  try {
    return await import('light-my-request')
  } catch (cause) {
    throw notLoaded('app', cause)
  }
}

/** An Express app, or any other listener of `node:http`. */
export type RouteApp = (req: IncomingMessage, res: ServerResponse) => unknown

/** The response of a route. */
export interface RouteResponse {
  readonly status: number
  header(name: string): string | undefined
  readonly body: Buffer
}

/** The app or server that receives the requests. */
export interface RouteTarget {
  /** The origin. A `Location` is resolved against it and must not leave it. */
  readonly origin: string
  /**
   * @param signal aborts when the client disconnects, or after the timeout
   * @throws {FetchRefusal} if the response is too large.
   */
  send(
    request: RouteRequest,
    context: KitContext<any>,
    limits: { readonly signal: AbortSignal; readonly maxBytes: number },
  ): Promise<RouteResponse>
}

const IN_PROCESS = 'http://localhost'

/**
 * Calls the routes of an app in this process, without a socket. They find the verified user at `req.auth`, as behind `mcpAuth`,
 * but `req.auth.token` is empty, and headers of the client are not passed on.
 */
export async function inProcess(app: RouteApp): Promise<RouteTarget> {
  const { inject } = await loadInject()
  return {
    origin: IN_PROCESS,
    async send({ method, path, headers, body }, { auth }, { signal, maxBytes }) {
      let response: ServerResponse | undefined
      const onAbort = (): void => void response?.destroy()
      signal.addEventListener('abort', onAbort, { once: true })
      try {
        const injected = await inject(
          (req, res) => {
            response = res as unknown as ServerResponse
            keepOwn(res)
            // Destroying the request ends the response, because there is not a socket to close.
            req.destroy = (error) => {
              response?.destroy(error)
              return req
            }
            if (auth !== undefined)
              Object.assign(req, { auth: AuthInfo.of('', { ...auth, scopes: [...auth.scopes] }) })
            const running = app(req as unknown as IncomingMessage, response)
            if (running instanceof Promise) running.catch((error: Error) => response?.destroy(error))
          },
          {
            method: method as 'GET',
            url: path,
            authority: 'localhost',
            headers,
            payloadAsStream: true,
            ...(body !== undefined && { payload: body }),
          },
        )
        const { headers: given } = injected
        return {
          status: injected.statusCode,
          header: (name) => (given[name] === undefined ? undefined : String(given[name])),
          body: await readBounded(injected.stream(), maxBytes),
        }
      } finally {
        signal.removeEventListener('abort', onAbort)
        response?.destroy()
      }
    },
  }
}

/**
 * Copies the methods of a response of light-my-request to the response itself. Express replaces the prototype of a response. To
 * keep its methods, light-my-request would change Express's prototypes for the whole process, also for real connections.
 */
function keepOwn(response: object): void {
  const { constructor: _, ...methods } = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(response))
  Object.defineProperties(response, methods)
}

/** Calls the routes of another server. Requests do not follow redirects, and credentials are not added. */
export function overHttp(origin: string): RouteTarget {
  return {
    origin,
    async send({ method, path, headers, body }, _context, { signal, maxBytes }) {
      const init = { method, headers, signal, ...(body !== undefined && { body }) }
      const response = await boundedFetch(origin + path, init, { maxBytes })
      return {
        status: response.status,
        header: (name) => response.headers.get(name) ?? undefined,
        body: Buffer.from(await response.arrayBuffer()),
      }
    },
  }
}
