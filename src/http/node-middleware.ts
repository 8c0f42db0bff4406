import type { IncomingMessage, ServerResponse } from 'node:http'
/** What Express and Connect add to a request. */
export interface NodeRequest extends IncomingMessage {
  /** The URL before routers took their mount path off. */
  originalUrl?: string | undefined
  /** What a body parser in front left. */
  body?: unknown
  /** What `mcpAuth` found out. */
  auth?: unknown
  /** The Express app, whose `trust proxy` setting decides about forwarded addresses. */
  app?: { get?: (name: string) => unknown }
  /** The client's address as Express has it, by its `trust proxy` setting. */
  ip?: string | undefined
}

/** `(req, res, next)` on Node's own types: for Express, Connect, Polka, or a bare `http.createServer`. */
export type NodeMiddleware = (req: NodeRequest, res: ServerResponse, next?: (error?: unknown) => void) => void
