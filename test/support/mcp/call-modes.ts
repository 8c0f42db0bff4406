import { createMcpAdapter, mcpHandler } from '../../../src/index.ts'
import { onNode, type Served, type Setup, web } from './entry-points.ts'
import { bearer, beginSession, legacy, modern, rpc, type WireAnswer } from './wire.ts'

/** A way to send a request: a revision, with or without a session, to one of the handlers. */
export interface CallMode {
  readonly name: string
  serve(setup: Setup): Promise<Served>
  send(served: Served, method: string, params?: Record<string, unknown>, token?: string): Promise<WireAnswer>
}

type Send = CallMode['send']

const sendModern: Send = (served, method, params = {}, token = 'reader') => {
  const named = typeof params.uri === 'string' ? { 'mcp-name': params.uri } : {}
  return served.send(modern(method, params, { ...bearer(token), ...named }))
}

const sendLegacy: Send = (served, method, params = {}, token = 'reader') =>
  served.send(legacy(rpc(method, params), bearer(token)))

const sendInBatch: Send = (served, method, params = {}, token = 'reader') =>
  served.send(
    legacy([rpc('ping', undefined, 'ping'), rpc(method, params)], {
      ...bearer(token),
      'mcp-protocol-version': '2025-03-26',
    }),
  )

const sendInSession: Send = async (served, method, params = {}, token = 'reader') => {
  const session = await beginSession(served, bearer(token))
  return await served.send(legacy(rpc(method, params, 'called'), { ...bearer(token), ...session }))
}

const WAYS: readonly { readonly name: string; readonly send: Send; readonly options?: Partial<Setup> }[] = [
  { name: '2026-07-28', send: sendModern },
  { name: '2025-11-25', send: sendLegacy },
  { name: 'a batch of 2025-03-26', send: sendInBatch },
  { name: 'a session of 2025-11-25', send: sendInSession, options: { sessions: true } },
]

/** Every way to send a request, on `node:http` and with the web-standard handler. */
export const CALL_MODES: readonly CallMode[] = WAYS.flatMap(({ name, send, options }) => [
  {
    name: `${name}, node:http`,
    serve: (setup) => onNode(mcpHandler(createMcpAdapter({ ...setup, ...options }))),
    send,
  },
  {
    name: `${name}, web handler`,
    serve: async (setup) => web(createMcpAdapter({ ...setup, ...options }).server),
    send,
  },
])

/** Returns the JSON-RPC response to the request that is not the ping of a batch. */
export function responseIn({ messages }: WireAnswer): any {
  return messages.find(({ id }) => id !== 'ping' && id !== undefined)
}
