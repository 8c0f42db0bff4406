import type { McpRequest } from './mcp-request.ts'

/**
 * Returns the part of a message that the headers of revision 2026-07-28 describe: `Mcp-Method`, and `Mcp-Name`, which mirrors
 * a name or a URI.
 */
export function mirroredMessage(request: Pick<McpRequest, 'header'>): {
  readonly method: string | undefined
  readonly params: { readonly name: string | undefined; readonly uri: string | undefined }
} {
  const name = decodedHeader(request.header('mcp-name'))
  return { method: request.header('mcp-method'), params: { name, uri: name } }
}

/** Decodes a header value. A value that is not plain ASCII is sent as `=?base64?…?=`. */
export function decodedHeader(value: string | undefined): string | undefined {
  const encoded = /^=\?base64\?([A-Za-z0-9+/=]*)\?=$/.exec(value ?? '')?.[1]
  return encoded === undefined ? value : Buffer.from(encoded, 'base64').toString('utf8')
}
