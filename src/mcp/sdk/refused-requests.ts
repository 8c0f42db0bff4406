import { type McpServer, SdkError, SdkErrorCode, type Server } from '@modelcontextprotocol/server'

/** The members of a server that send a request. Some of them look at the capabilities of the client first. */
const SENDERS = ['createMessage', 'elicitInput', 'listRoots', 'ping', 'request']

/** Returns the error for a request of a server that no client can receive. */
export function unreceivableRequest(): SdkError {
  return new SdkError(
    SdkErrorCode.SendFailed,
    'A server can send requests only in a session. Set the option sessions of createMcpAdapter for clients of the 2025 revisions, and return inputRequired({ … }) from the handler for clients of 2026-07-28.',
  )
}

/**
 * Makes the requests of a server, and those of the contexts of its handlers, reject at once. The server serves a single HTTP
 * request: the SDK would wait for a response that cannot arrive, or blame the client, whose capabilities it does not know.
 */
export function refuseRequests(server: Server | McpServer): void {
  const inner = innerOf(server)
  const send = (): Promise<never> => Promise.reject(unreceivableRequest())
  const { buildContext } = Object.getPrototypeOf(inner)
  Object.assign(inner, Object.fromEntries(SENDERS.map((name) => [name, send])), {
    // The hook in which the SDK adds members to the context of a handler.
    buildContext: (context: { readonly mcpReq: object }, extra: unknown): unknown =>
      buildContext.call(inner, { ...context, mcpReq: { ...context.mcpReq, send } }, extra),
  })
}

/** Undoes `refuseRequests`, because an application may return the same server for a session. */
export function allowRequests(server: Server | McpServer): void {
  for (const name of [...SENDERS, 'buildContext']) Reflect.deleteProperty(innerOf(server), name)
}

function innerOf(server: Server | McpServer): Server {
  return 'server' in server ? server.server : server
}
