import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { tryOrUndefined } from '../base/try-or-undefined.ts'

const { fittingKind, invalidOption, readOptions } = optionChecksOf('callTool')

/** Options of {@link callTool}. */
export interface CallToolOptions {
  /** The access token. By default, the request has none. */
  readonly token?: string | undefined
  /** The path of the MCP endpoint of an application. Defaults to `/mcp`. */
  readonly path?: string | undefined
}

/** The response to a call of a tool. */
export interface ToolResponse {
  /** The status code, such as 200, 401, or 403. */
  readonly status: number
  /** The headers, such as `WWW-Authenticate`. */
  readonly headers: Headers
  /** The text items of the result, joined by line breaks, or the body of a response that is not a result. */
  readonly text: string
  /** The result. It is `undefined` if there is none. */
  readonly result:
    | {
        readonly content: readonly { readonly type: string; readonly text?: string }[]
        readonly structuredContent?: unknown
        readonly isError?: boolean
      }
    | undefined
}

const RULES = {
  token: optional(
    fittingKind<string>(
      (token) => typeof token === 'string' && /^[!-~]+$/.test(token),
      'must be a token, without spaces and line breaks',
    ),
  ),
  path: optional(
    fittingKind<string>(
      (path) => typeof path === 'string' && path.startsWith('/'),
      'must be a path that begins with /',
    ),
    '/mcp',
  ),
} satisfies RulesFor<CallToolOptions>

/**
 * Calls a tool of a server over HTTP, as a client would, in a test.
 * @param server an application of Express or another request listener, which gets a port during the call, or the URL of
 * the MCP endpoint of a server that runs.
 * @param name the name of the tool.
 * @param args the arguments of the tool. Defaults to none.
 * @param options the token, and the path of the endpoint.
 * @returns the status, the headers, and the result.
 * @throws {KitMcpConfigError} (the promise rejects) if the server or an option is invalid.
 * @example
 * ```ts
 * import express from 'express'
 * import { callTool, createTestIssuer } from 'mcp-gatekit/testing'
 *
 * const app = express()
 * const token = await createTestIssuer().issueToken({ scopes: ['mcp:read'] })
 * export const { status, text } = await callTool(app, 'greet', { name: 'Ada' }, { token })
 * ```
 * @see docs/guides/testing.md
 */
export async function callTool(
  server: string | URL | ((req: IncomingMessage, res: ServerResponse) => unknown),
  name: string,
  args: Readonly<Record<string, unknown>> = {},
  options: CallToolOptions = {},
): Promise<ToolResponse> {
  const expected = 'must be called with options such as { token }'
  const { token, path } = readOptions('callTool', expected, options, RULES)
  if (typeof server === 'string' || server instanceof URL) return await call(server, name, args, token)
  if (typeof server !== 'function')
    throw invalidOption('server', 'must be an application such as express(), or a URL', server)
  const http = createServer(server).listen(0, '127.0.0.1')
  await once(http, 'listening')
  try {
    return await call(`http://127.0.0.1:${(http.address() as AddressInfo).port}${path}`, name, args, token)
  } finally {
    http.closeAllConnections()
    http.close()
  }
}

async function call(
  url: string | URL,
  name: string,
  args: object,
  token: string | undefined,
): Promise<ToolResponse> {
  const response = await fetch(url, {
    method: 'POST',
    headers: {
      'Content-Type': 'application/json',
      Accept: 'application/json, text/event-stream',
      ...(token !== undefined && { Authorization: `Bearer ${token}` }),
    },
    body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name, arguments: args } }),
  })
  const { status, headers } = response
  const body = await response.text()
  // The body is one message, or a stream with a message in each event.
  const messages = [...body.matchAll(/^(?:data: ?)?(\{.*\})\r?$/gm)].map(([, json]) =>
    tryOrUndefined(() => JSON.parse(json as string)),
  )
  const result: ToolResponse['result'] = messages.find((message) => message?.id === 1)?.result
  const text = result?.content.flatMap((item) => item.text ?? []).join('\n') ?? body
  return { status, headers, text, result }
}
