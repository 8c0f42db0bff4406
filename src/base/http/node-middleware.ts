import type { IncomingMessage, ServerResponse } from 'node:http'

/** A request of Node.js with the members that Express and Connect add. */
export interface NodeRequest extends IncomingMessage {
  /** The URL before routers removed their mount path. */
  originalUrl?: string | undefined
  /** The body, if a body parser has read it. */
  body?: unknown
  /** The `AuthInfo` of the verified token, set by `mcpAuth`. */
  auth?: unknown
  /** The Express application. Its setting `trust proxy` decides whether forwarded addresses are used. */
  app?: { get?: (name: string) => unknown }
  /** The address of the client, determined by Express with its setting `trust proxy`. */
  ip?: string | undefined
}

/** Middleware `(req, res, next)` on the types of Node.js, for Express, Connect, Polka, or a plain `http.createServer`. */
export type NodeMiddleware = (req: NodeRequest, res: ServerResponse, next?: (error?: unknown) => void) => void
