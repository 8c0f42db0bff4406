import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Provider as OidcProvider } from 'oidc-provider'
import type { Attributes, ConsoleEvent } from './events/event.ts'

export interface AuthorizationEventsOptions {
  /** Receives the events of the authorization server. */
  readonly emit: (event: ConsoleEvent) => void
  /** Returns a name for a token that does not reveal it. */
  readonly fingerprint: (token: string) => string
}

/** The maximum length of a string that a client has sent. */
const MAX_TEXT = 256

/** A request and its response, as `oidc-provider` passes them to listeners. */
interface Context {
  readonly req: IncomingMessage
  readonly body?: unknown
  readonly oidc?: {
    readonly params?: Readonly<Record<string, unknown>>
    readonly client?: { readonly clientId: string }
    readonly body?: Readonly<Record<string, unknown>>
  }
}

/** Emits what clients and users do at the authorization server, with the attributes of `authorizationFacade`. No event contains a token, a code, or a secret. */
export type AuthorizationEvents = ReturnType<typeof authorizationEvents>

export function authorizationEvents(options: AuthorizationEventsOptions) {
  const send = (name: string, req: IncomingMessage, attributes: Attributes, level = 'info'): void => {
    const all = {
      ...attributes,
      'client.address': req.socket.remoteAddress,
      'user_agent.original': req.headers['user-agent'],
      origin: req.headers.origin,
    }
    const short = Object.entries(all).map(([key, value]) => [key, shortened(value)] as const)
    options.emit({
      name,
      time: new Date().toISOString(),
      level,
      sessionId: 'authorization-server',
      attributes: Object.fromEntries(short.filter(([, value]) => value !== undefined)),
    })
  }
  const emit = (name: string, req: IncomingMessage, attributes: Attributes): void => {
    const isProblem = /refused$|denied$/.test(name)
    send(`kit.authorization.${name}`, req, attributes, isProblem ? 'warn' : 'info')
  }
  const refused = (name: string, ctx: Context, thrown: unknown): void => {
    const { error, error_description: description, error_detail: detail } = thrown as Record<string, unknown>
    const { params, client, body } = ctx.oidc ?? {}
    emit(name, ctx.req, {
      client: client?.clientId ?? params?.client_id ?? body?.client_id,
      resource: params?.resource,
      reason: error,
      error_description: [description, detail].filter((text) => typeof text === 'string').join(': '),
    })
  }
  return {
    emit,

    /** Listens to the events of `oidc-provider`. */
    listenTo(provider: OidcProvider): void {
      const on = (name: string, listener: (ctx: Context, detail: unknown) => void): void =>
        void (provider as { on(name: string, listener: unknown): unknown }).on(name, listener)
      on('registration_create.success', (ctx, client) => {
        const { clientId, clientName, redirectUris } = client as Record<string, unknown>
        const registered = { client: clientId, client_name: clientName, redirect_uris: redirectUris }
        emit('client.registered', ctx.req, registered)
      })
      on('registration_create.error', (ctx, error) => refused('client.refused', ctx, error))
      on('authorization.error', (ctx, error) => {
        // `consent.denied` was emitted for it.
        if ((error as { error?: unknown }).error !== 'access_denied') refused('request.refused', ctx, error)
      })
      on('grant.error', (ctx, error) => refused('token.refused', ctx, error))
      on('grant.success', (ctx) => {
        const {
          access_token: token,
          scope,
          expires_in: seconds,
        } = (ctx.body ?? {}) as Record<string, unknown>
        emit('token.issued', ctx.req, {
          client: ctx.oidc?.client?.clientId,
          grant_type: ctx.oidc?.params?.grant_type,
          resource: ctx.oidc?.params?.resource,
          scopes: scope,
          expires_in: seconds,
          ...(typeof token === 'string' && { token: options.fingerprint(token) }),
        })
      })
    },

    /** Emits the request of a client for metadata, or its preflight. */
    observe(req: IncomingMessage, res: ServerResponse): void {
      const path = (req.url ?? '/').split('?', 1)[0] as string
      const isPreflight = req.method === 'OPTIONS'
      const isMetadata = /^\/\.well-known\/(?:oauth-authorization-server|openid-configuration)\b/.test(path)
      if (!isPreflight && !isMetadata) return
      res.once('finish', () => {
        send('dev.request', req, {
          server: 'authorization',
          'http.request.method': req.method,
          'url.path': path,
          'http.response.status_code': res.statusCode,
          ...(isPreflight && { preflight: true }),
          covered: false,
        })
      })
    },
  }
}

/** Returns a string in at most `MAX_TEXT` characters, a number, or a boolean. Returns `undefined` for other values. */
function shortened(value: unknown): unknown {
  if (Array.isArray(value)) return shortened(value.slice(0, 8).map(String).join(' '))
  if (typeof value === 'string') return value.slice(0, MAX_TEXT)
  return typeof value === 'number' || typeof value === 'boolean' ? value : undefined
}
