import express, { type Express } from 'express'
import {
  createMcpAdapter,
  jwtVerifier,
  type KitTelemetryManager,
  mcpAuth,
  mcpCors,
  mcpHandler,
  protectedResourceRouter,
} from 'mcp-gatekit'
import { NoteStore, type NotesUser, notesRouter } from './notes.ts'

export interface NotesServerOptions {
  /** The authorization server whose tokens are accepted. */
  readonly issuer: string
  /** Where its keys are. Without it they are looked up in the issuer's metadata. */
  readonly jwksUri: string
  /** This server's own URL, as clients use it: what a token must be meant for. */
  readonly resource: string
  readonly telemetry: KitTelemetryManager
  /** Where the notes are. */
  readonly folder: string
}

/** An Express application that serves notes over MCP to whoever brings a token with the right scopes. */
export async function createNotesServer(options: NotesServerOptions): Promise<Express> {
  const { issuer, jwksUri, resource, telemetry, folder } = options

  const adapter = createMcpAdapter({
    serverInfo: { name: 'notes', version: '1.0.0' },
    router: notesRouter(await NoteStore.open(folder)),
    telemetry,
    oauth: {
      issuer,
      resource,
      resourceName: 'Notes',
      verifyToken: jwtVerifier<NotesUser>({
        issuer,
        jwksUri,
        // The one check that keeps out tokens which were issued for somebody else.
        audience: resource,
        strict: true,
        mapUser: ({ sub, email }) => ({ id: String(sub), ...(typeof email === 'string' && { email }) }),
      }),
      // Every request needs it. The tools that write name `mcp:write` themselves, and a token that has only
      // that may read as well.
      scopes: ['mcp:read'],
      scopeImplies: { 'mcp:write': ['mcp:read'] },
      // The library does not know what this application calls a user: the wiring is ours.
      onVerified: ({ context, user }) => {
        context.context.user = user
      },
    },
  })

  const app = express()
  // CORS first: browsers must be able to read the refusals too. No express.json() before the gate: the
  // body of a request that is refused need not be read.
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.use(protectedResourceRouter(adapter))
  return app
}
