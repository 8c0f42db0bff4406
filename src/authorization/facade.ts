import type * as Oidc from 'oidc-provider'
import type * as OpenId from 'openid-client'
import type { NodeMiddleware } from '../base/http/node-middleware.ts'
import type { SafeFetchSettings } from '../base/http/safe-fetch.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { isInstalled, peerProblem } from '../base/peer-problem.ts'
import type { OAuthOptions } from '../oauth/options.ts'
import { jwtVerifier } from '../oauth/verifiers/jwt.ts'
import type { UpstreamTokens } from '../upstream/upstream-token.ts'
import {
  ACCOUNT_PATH,
  CALLBACK_PATH,
  isResume,
  PATHS,
  prefixOf,
  resourceServers,
  SIGN_IN_PATH,
} from './context.ts'
import { emitterOf } from './events.ts'
import { grantedTokens } from './grants/granted-tokens.ts'
import { type ConnectedGrant, Grants } from './grants/grants.ts'
import { liveVerifier } from './grants/live-access.ts'
import { type AuthorizationFacadeOptions, resolveFacadeOptions } from './options.ts'
import { refuseUnserved } from './pages/error-pages.ts'
import { Records } from './records.ts'
import { buildServer } from './server/server.ts'
import { withoutNotices } from './server/without-notices.ts'
import { ProviderClient } from './sign-in/provider-client.ts'

const { text, unusableOption } = optionChecksOf('authorizationFacade')

/** The optional peers of this entry, with the versions of package.json. */
const COMMAND = 'npm install oidc-provider@9 openid-client@6'

const METADATA_NAMES = ['oauth-authorization-server', 'openid-configuration']

/** An authorization server, as {@link authorizationFacade} returns it. */
export interface AuthorizationFacade {
  /**
   * Middleware that serves the authorization server: its metadata, its endpoints, and the pages of the sign-in. Other requests
   * are passed on. Mount it at the root of the application, before body parsers.
   */
  readonly router: NodeMiddleware
  /**
   * Middleware that serves a page at `<url>/account` on which users see and disconnect the applications that have access to
   * their account. Other requests are passed on. The page signs users in as `router` does, and does not exist unless it is
   * mounted.
   */
  readonly account: NodeMiddleware
  /** OAuth options for `createMcpAdapter`, `withOAuth`, or `mcpAuth`. They verify the tokens of this server without HTTP. */
  readonly oauth: OAuthOptions
  /** Tokens of the identity provider that act for the user of a request. The client never gets them. */
  readonly upstreamToken: UpstreamTokens
  /** The grants of users to clients. */
  readonly grants: FacadeGrants
  /** Stops serving: further requests get a 503. The store is not closed. */
  close(): Promise<void>
}

/**
 * Creates an authorization server for MCP clients whose users sign in at an existing identity provider, for providers that let
 * no MCP client register itself. Clients register here or have a metadata document. Users sign in at the provider and consent
 * on a page of this server. Clients get tokens of this server for the MCP server only.
 * @param options the address, the provider, the scopes, and who may sign in.
 * @returns the middleware, the OAuth options for the MCP server, and the tokens of the provider.
 * @throws {KitMcpConfigError} if an option is missing, invalid, or unknown, or if `oidc-provider` or `openid-client` is not
 * installed.
 * @example
 * ```ts
 * import express from 'express'
 * import { createMcpAdapter, KitMcpRouter, mcpServer } from 'mcp-gatekit'
 * import { authorizationFacade, github } from 'mcp-gatekit/authorization'
 *
 * const facade = authorizationFacade({
 *   url: 'https://mcp.example.com',
 *   resource: 'https://mcp.example.com/mcp',
 *   upstream: github({ clientId: 'Iv1.0123456789abcdef', clientSecret: String(process.env.CLIENT_SECRET) }),
 *   scopes: { 'mcp:read': 'Read your notes' },
 *   allow: ({ claims }) => claims.login === 'ada',
 * })
 * const adapter = createMcpAdapter({ router: KitMcpRouter.create(), oauth: facade.oauth })
 *
 * express().use(facade.router).use(mcpServer(adapter))
 * ```
 * @see docs/guides/authorization-facade.md
 */
export function authorizationFacade(options: AuthorizationFacadeOptions): AuthorizationFacade {
  return createFacade(options, {})
}

/** Creates the facade. Tests replace the access to the network. */
export function createFacade(
  given: AuthorizationFacadeOptions,
  safeFetch: SafeFetchSettings,
): AuthorizationFacade {
  const options = resolveFacadeOptions(given)
  checkPeers()
  const { url, resources, scopes, keys, store } = options
  const { host, protocol } = new URL(url)
  const prefix = prefixOf(url)
  const records = new Records(store, keys.encryption)
  const peers = loadPeers()
  const upstream = new ProviderClient(options.upstream, url + CALLBACK_PATH, async () => (await peers)[1])
  const emit = emitterOf(options.telemetry)
  const grants = new Grants(records, options.tokens, emit)
  const parts = { ...resourceServers(options), options, records, grants, upstream, emit }
  let isClosed = false
  const listening = peers.then(([library]) => buildServer(library, parts, safeFetch).callback())
  // The error is reported to the requests.
  listening.catch(() => undefined)

  const serve = (target: string, ...[req, res, next]: Parameters<NodeMiddleware>): void => {
    const refuse = () => refuseUnserved(req, res, options.page)
    if (isClosed) return void refuse()
    // Addresses are built from the issuer, never from the headers of a request.
    req.headers.host = host
    req.headers['x-forwarded-host'] = host
    req.headers['x-forwarded-proto'] = protocol.slice(0, -1)
    req.url = target
    req.originalUrl = prefix + target
    listening.then((listener) => listener(req, res)).catch(next ?? refuse)
  }
  const middleware =
    (find: typeof targetOf): NodeMiddleware =>
    (req, res, next) => {
      const target = find(req.originalUrl ?? req.url ?? '', prefix)
      if (target === undefined) next?.()
      else serve(target, req, res, next)
    }

  const [resource = '', ...others] = resources
  const oauth: OAuthOptions = {
    issuer: url,
    resource: others.length === 0 ? resource : resourceOfRequest(resources),
    scopesSupported: Object.keys(scopes),
    verifyToken: liveVerifier(
      jwtVerifier({
        issuer: url,
        audience: resources,
        publicKey: { keys: keys.signing.map((key) => ({ ...key })) },
        requiredClaims: ['sub', 'client_id'],
        strict: true,
      }),
      grants,
      options.grants.accessSeconds,
    ),
    dpop: 'allowed',
    ...(options.clientAddress !== undefined && { clientAddress: options.clientAddress }),
  }
  return {
    router: middleware(targetOf),
    account: middleware(accountTargetOf),
    oauth,
    upstreamToken: grantedTokens(parts),
    grants: {
      list: async (sub) => await grants.ofUser(text('sub', sub)),
      revoke: async (sub, id) => await grants.endOf(text('sub', sub), text('id', id), 'application'),
      revokeClient: async (clientId) => await grants.endAllOfClient(text('clientId', clientId)),
      revokeUser: async (sub) => await grants.endAllOfUser(text('sub', sub)),
    },
    async close() {
      isClosed = true
      await listening.catch(() => undefined)
    },
  }
}

/** Returns the path and query for the server if it owns the path of a request. */
function targetOf(requested: string, prefix: string): string | undefined {
  const [path = '', ...rest] = requested.split(/(?=\?)/)
  const query = rest.join('')
  for (const name of METADATA_NAMES) {
    const wellKnown = `/.well-known/${name}`
    if (path === wellKnown + prefix || path === prefix + wellKnown) return wellKnown + query
  }
  if (!path.startsWith(`${prefix}/`)) return undefined
  const own = path.slice(prefix.length)
  // The request is in the store. The library would read the target of an error from the query.
  if (isResume(own)) return own
  const isOwned = Object.values<string>(PATHS).includes(own) || own.startsWith(`${SIGN_IN_PATH}/`)
  return isOwned ? own + query : undefined
}

/** Returns the path and query for the server if a request is for the page of connected applications. */
function accountTargetOf(requested: string, prefix: string): string | undefined {
  const [path, ...query] = requested.split(/(?=\?)/)
  return path === prefix + ACCOUNT_PATH ? ACCOUNT_PATH + query.join('') : undefined
}

/** Returns the resource whose path a request has, for a server with several resources. */
function resourceOfRequest(resources: readonly string[]): (request: Request) => string | undefined {
  const byPath = new Map(resources.map((resource) => [new URL(resource).pathname, resource]))
  return (request) => {
    const { pathname } = new URL(request.url)
    return (
      byPath.get(pathname) ??
      byPath.get(pathname.replace(/^\/\.well-known\/oauth-protected-resource/, '') || '/')
    )
  }
}

/** Loads the libraries. Their warnings about the runtime are not printed. Bundlers need `try` next to each import. */
async function loadPeers(): Promise<readonly [typeof Oidc, typeof OpenId]> {
  return await withoutNotices(async () => {
    try {
      return [await import('oidc-provider'), await import('openid-client')]
    } catch (cause) {
      throw notLoaded(cause)
    }
  })
}

function notLoaded(cause: unknown): Error {
  const { reason, fix } = peerProblem(cause, COMMAND)
  return unusableOption('authorizationFacade', `needs oidc-provider and openid-client, which ${reason}`, fix)
}

/** @throws {KitMcpConfigError} if a peer is not installed. */
function checkPeers(): void {
  // A bundle contains all packages, and the imports report others.
  if (!isInstalled('jose')) return
  for (const name of ['oidc-provider', 'openid-client'])
    if (!isInstalled(name))
      throw unusableOption(
        'authorizationFacade',
        `needs the package ${name}, which is not installed`,
        peerProblem(undefined, COMMAND).fix,
      )
}

/**
 * The grants of users to clients. `sub` is the claim `sub` of access tokens, such as `github|583231`. All methods reject with a
 * `TemporarilyUnavailableError` if the store is unavailable, and with a `KitMcpConfigError` if an argument is not a non-empty string.
 * A call that was rejected can be repeated.
 */
export interface FacadeGrants {
  /** Returns the live grants of a user, the last used one first. There are at most 64. */
  list(sub: string): Promise<ConnectedGrant[]>
  /**
   * Ends a grant of a user. No refresh succeeds afterwards, and access tokens stop within `grants.accessSeconds`.
   * @returns `false` if the user has no such grant.
   */
  revoke(sub: string, id: string): Promise<boolean>
  /**
   * Ends all access of a client: grants, codes, remembered consents, tokens of the provider, and tokens for identity assertions. The
   * client stays registered, and users can sign in again.
   * @returns the number of grants.
   */
  revokeClient(clientId: string): Promise<number>
  /**
   * Ends all access that a user has granted, as `revokeClient` does. The user can sign in again, unless `allow` denies it.
   * @returns the number of grants.
   */
  revokeUser(sub: string): Promise<number>
}
