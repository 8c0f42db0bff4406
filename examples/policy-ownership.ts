import express, { type Express } from 'express'
import { type Authorize, createMcpAdapter, KitMcpRouter, mcpServer, type OAuthOptions } from 'mcp-gatekit'
import { z } from 'zod'

interface Document {
  readonly owner: string
  readonly readers: readonly string[]
  readonly text: string
}

/** Creates an Express application whose tools work only on documents of the user. */
export function createDocumentsServer(oauth: OAuthOptions, documents: Map<string, Document>): Express {
  const input = z.object({ document: z.string() })
  const router = KitMcpRouter.create()
    .tool(
      'read_document',
      { description: 'Reads a document', input },
      ({ document }) => documents.get(document)?.text,
    )
    .tool('delete_document', { description: 'Deletes a document', input }, ({ document }) => {
      documents.delete(document)
      return `Deleted ${document}`
    })

  const byOwner: Authorize = ({ purpose, name, args, auth }) => {
    // A list has no arguments. Every user may see the tools.
    if (purpose === 'list') return true
    const user = auth?.user?.id
    const document = documents.get(String(args?.document))
    const permitted =
      document !== undefined &&
      (document.owner === user || (name === 'read_document' && document.readers.includes(user)))
    // The text is the same for a document that does not exist, so that users cannot find out which ones exist.
    return permitted || { deny: 'You have no such document.' }
  }

  return express().use(mcpServer(createMcpAdapter({ router, oauth, authorize: byOwner })))
}
