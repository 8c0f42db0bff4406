import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Readable } from 'node:stream'
import type { KitContext } from '../mcp/router/context.ts'
import { KitToolError } from '../mcp/router/tool-error.ts'
import { AuthInfo } from '../oauth/auth-info.ts'
import { loadPeer } from './optional-peers.ts'
import type { RouteRequest } from './request-plan.ts'

/** An Express app, or any other listener of `node:http`. */
export type RouteApp = (req: IncomingMessage, res: ServerResponse) => unknown

/** What a route answered. */
export interface RouteAnswer {
  readonly status: number
  header(name: string): string | undefined
  readonly body: Buffer
}

/** What an answer may cost. */
export interface AnswerLimits {
  /** Aborts when the client has gone, or time is up. */
  readonly signal: AbortSignal
  readonly maxBytes: number
}

/** Where requests go. */
export interface RouteTarget {
  /** What a `Location` is resolved against, and must not leave. */
  readonly origin: string
  send(request: RouteRequest, context: KitContext<any>, limits: AnswerLimits): Promise<RouteAnswer>
}

const IN_PROCESS = 'http://localhost'

/**
 * Routes of an app of this process, without a socket. They find the verified user at `req.auth`, as behind `mcpAuth`,
 * but no token: `req.auth.token` is empty, and no header of the client is passed on.
 */
export async function inProcess(app: RouteApp): Promise<RouteTarget> {
  const { inject } = await loadPeer('app', () => import('light-my-request'))
  return {
    origin: IN_PROCESS,
    async send({ method, path, headers, body }, { auth }, { signal, maxBytes }) {
      let response: ServerResponse | undefined
      const onAbort = (): void => void response?.destroy()
      signal.addEventListener('abort', onAbort, { once: true })
      try {
        const answer = await inject(
          (req, res) => {
            response = res as unknown as ServerResponse
            keepOwn(res)
            // There is no socket that it could take with it.
            req.destroy = (error) => {
              response?.destroy(error)
              return req
            }
            if (auth !== undefined)
              Object.assign(req, { auth: AuthInfo.of('', { ...auth, scopes: [...auth.scopes] }) })
            run(app, req as unknown as IncomingMessage, response)
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
        const read = await readBounded(answer.stream(), maxBytes)
        const { headers: given } = answer
        return {
          status: answer.statusCode,
          header: (name) => (given[name] === undefined ? undefined : String(given[name])),
          body: read,
        }
      } finally {
        signal.removeEventListener('abort', onAbort)
        response?.destroy()
      }
    },
  }
}

/** A listener may be asynchronous, and fail. */
function run(app: RouteApp, req: IncomingMessage, res: ServerResponse): void {
  const running = app(req, res)
  if (running instanceof Promise) running.catch((error: Error) => res.destroy(error))
}

/**
 * Express gives a response a prototype of its own, which would take the library's methods away; the library's answer
 * to that is to change Express's prototypes for the whole process, real connections included.
 */
function keepOwn(response: object): void {
  const { constructor: _, ...methods } = Object.getOwnPropertyDescriptors(Object.getPrototypeOf(response))
  Object.defineProperties(response, methods)
}

/** Routes of another server. `fetch` follows no redirect, and sends nothing but what it is given. */
export function overHttp(origin: string): RouteTarget {
  return {
    origin,
    async send({ method, path, headers, body }, _context, { signal, maxBytes }) {
      const response = await fetch(origin + path, {
        method,
        headers,
        redirect: 'manual',
        signal,
        ...(body !== undefined && { body }),
      })
      return {
        status: response.status,
        header: (name) => response.headers.get(name) ?? undefined,
        body: response.body === null ? Buffer.alloc(0) : await readBounded(response.body, maxBytes),
      }
    },
  }
}

/** Leaving the loop early ends the stream. */
async function readBounded(stream: Readable | AsyncIterable<Uint8Array>, maxBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of stream) {
    chunks.push(Buffer.from(chunk))
    size += chunk.length
    if (size > maxBytes) {
      throw new KitToolError(`The answer is larger than ${maxBytes} bytes: ask for less at a time`)
    }
  }
  return Buffer.concat(chunks, size)
}
