import { createServer } from 'node:http'
import { fileURLToPath } from 'node:url'
import express from 'express'
import { createMcpAdapter, jwtVerifier, KitMcpRouter, mcpServer } from 'mcp-gatekit'
import { startAuthorizationServer } from '../authorization-server.ts'
import { listen, stop } from '../listen.ts'

const router = KitMcpRouter.create()
  .tool('list_notes', { description: 'Lists the notes' }, () => 'Buy milk')
  .tool(
    'clear_notes',
    { description: 'Deletes all notes', scopes: ['notes:write'] },
    () => 'All notes are gone',
  )

/**
 * Serves the tools for one web page, with an authorization server on loopback.
 * @param page the origin of the page, the only one that may send requests and read responses
 */
export async function serveNotes(
  page: string,
  port: number,
): Promise<{ readonly url: string; close(): Promise<void> }> {
  const http = createServer()
  const resource = `http://127.0.0.1:${await listen(http, port)}/mcp`
  const authorization = await startAuthorizationServer({
    resources: [resource],
    scopes: ['notes:read', 'notes:write'],
  })
  const { issuer, jwksUri } = authorization
  const adapter = createMcpAdapter({
    router,
    oauth: { issuer, resource, scopes: ['notes:read'], verifyToken: jwtVerifier({ jwksUri }) },
    allowedOrigins: [page],
  })
  http.on('request', express().use(mcpServer(adapter)))
  return {
    url: resource,
    close: async () => {
      await Promise.all([stop(http), authorization.close()])
    },
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const page = process.env.PAGE_ORIGIN ?? 'http://127.0.0.1:5173'
  const { url } = await serveNotes(page, 3000)
  console.log(`Serving ${url} for the page ${page}`)
}
