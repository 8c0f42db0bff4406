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
  /** The URL of its keys. By default, the metadata of the issuer contains it. */
  readonly jwksUri: string
  /** The URL of this server as clients see it, which is the audience of its tokens. */
  readonly resource: string
  readonly telemetry: KitTelemetryManager
  /** The folder of the notes. */
  readonly folder: string
}

/** Creates an Express application that serves notes over MCP and requires a token with the right scopes. */
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
        // Rejects tokens that were issued for other servers.
        audience: resource,
        strict: true,
        requiredClaims: ['sub'],
        mapUser: ({ sub, email }) => ({ id: String(sub), ...(typeof email === 'string' && { email }) }),
      }),
      // Every request requires this scope. Tools that write also require `mcp:write`, which includes `mcp:read`.
      scopes: ['mcp:read'],
      scopeImplies: { 'mcp:write': ['mcp:read'] },
      // Copies the verified user into the context of the application.
      onVerified: ({ context, user }) => {
        context.context.user = user
      },
    },
  })

  const app = express()
  // CORS comes first, so that browsers can read error responses. Do not add express.json() before the gate, so that
  // bodies of rejected requests are not read.
  app.use('/mcp', mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
  app.use(protectedResourceRouter(adapter))
  return app
}
