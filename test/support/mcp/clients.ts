import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from '@modelcontextprotocol/client'
import { Client as ClientV1 } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport as TransportV1 } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import {
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
  ToolListChangedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js'
import { LEGACY, MODERN, signalled } from './wire.ts'

/** A notification as the server sent it. */
export interface ServerNotification {
  readonly method: string
  readonly params?: any
}

/** A connected client of the official SDK. `client` is v1's or v2's: what the tests use of it, both have. */
export interface Connected {
  readonly client: any
  /** Settles when the event stream of a 2025 client is open. */
  readonly streaming: Promise<void>
  close(): Promise<void>
}

export interface ConnectOptions {
  readonly token?: string
  readonly capabilities?: object
  /** Called for list changes and updates of resources. */
  readonly onNotification?: (notification: ServerNotification) => void
  /** Called before the connection is made. */
  readonly prepare?: (client: any) => void
}

export interface ClientKind {
  readonly name: string
  readonly revision: string
  connect(origin: string, options?: ConnectOptions): Promise<Connected>
}

const INFO = { name: 'test', version: '1.0.0' }
const CHANGES = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
  'notifications/resources/updated',
] as const
const CHANGES_V1 = [
  ToolListChangedNotificationSchema,
  PromptListChangedNotificationSchema,
  ResourceListChangedNotificationSchema,
  ResourceUpdatedNotificationSchema,
] as const

function authorized(token: string | undefined) {
  const streaming = signalled()
  const withToken: typeof fetch = async (input, init) => {
    const headers = new Headers(init?.headers)
    if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
    const response = await fetch(input, { ...init, headers })
    if (init?.method === 'GET' && response.status === 200) streaming.resolve()
    return response
  }
  return { fetch: withToken, streaming: streaming.promise }
}

/** Makes `client` call `onNotification` for list changes and updates of resources. Returns the client. */
export function withNotifications<Client extends ClientV1 | ClientV2>(
  client: Client,
  onNotification: ConnectOptions['onNotification'],
): Client {
  if (client instanceof ClientV1) {
    for (const schema of CHANGES_V1)
      client.setNotificationHandler(schema, (notification) =>
        onNotification?.(notification as ServerNotification),
      )
  } else {
    for (const method of CHANGES)
      client.setNotificationHandler(method, (notification) =>
        onNotification?.(notification as ServerNotification),
      )
  }
  return client
}

const v2 = (mode: 'legacy' | { pin: string }): ClientKind['connect'] =>
  async function connect(origin, { token, capabilities = {}, onNotification, prepare } = {}) {
    const client = withNotifications(
      new ClientV2(INFO, { capabilities, versionNegotiation: { mode } }),
      onNotification,
    )
    prepare?.(client)
    const { fetch, streaming } = authorized(token)
    await client.connect(new TransportV2(new URL('/mcp', origin), { fetch }))
    return { client, streaming, close: () => client.close() }
  }

const v1: ClientKind['connect'] = async (
  origin,
  { token, capabilities = {}, onNotification, prepare } = {},
) => {
  const client = withNotifications(new ClientV1(INFO, { capabilities }), onNotification)
  prepare?.(client)
  const { fetch, streaming } = authorized(token)
  const transport = new TransportV1(new URL('/mcp', origin), { fetch })
  // The cast is for `exactOptionalPropertyTypes`, which v1's own types do not pass.
  await client.connect(transport as Parameters<typeof client.connect>[0])
  return { client, streaming, close: () => client.close() }
}

export const CLIENT_KINDS: readonly ClientKind[] = [
  { name: 'v2 client, legacy era', revision: LEGACY, connect: v2('legacy') },
  { name: 'v2 client, 2026-07-28', revision: MODERN, connect: v2({ pin: MODERN }) },
  { name: 'v1 client', revision: LEGACY, connect: v1 },
]

/** The error that a request is answered with. */
export async function errorOf(request: Promise<unknown>): Promise<{ code: number; message: string }> {
  return await request.then(
    () => {
      throw new Error('the request was answered')
    },
    (error) => error,
  )
}
