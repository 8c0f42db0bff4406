import { preflightHeaders } from '../base/http/cors-headers.ts'
import type { NodeMiddleware } from '../base/http/node-middleware.ts'
import { optionChecksOf } from '../base/options/option-checks.ts'
import { optional, type RulesFor } from '../base/options/option-rules.ts'
import { AuthorizationServerMetadata } from '../oauth/metadata/authorization-server-metadata.ts'
import type { ResolvedOAuthOptions } from '../oauth/options.ts'
import { NodeMcpRequest } from './node-request.ts'
import { writePlainResponse } from './node-response.ts'
import { type GateTarget, resolveTarget } from './target.ts'

const checks = optionChecksOf('protectedResourceRouter')

/** Options of {@link protectedResourceRouter}. */
export interface ProtectedResourceRouterOptions {
  /**
   * Serves a copy of the authorization server's metadata (RFC 8414, OpenID Connect Discovery) at
   * `/.well-known/oauth-authorization-server` and `/.well-known/openid-configuration`. Its `issuer` remains that of the
   * authorization server. If `authorizationServers` lists several, the first one is used. Needed by claude.ai and Claude Code
   * (2026-11), which may look for it at the origin of the MCP server. Defaults to `false`.
   */
  readonly authorizationServerMetadata?: boolean | undefined
}

const RULES = {
  authorizationServerMetadata: optional(checks.checkBoolean, false),
} satisfies RulesFor<ProtectedResourceRouterOptions>

/**
 * Serves the protected resource metadata document (RFC 9728) at `resourceMetadataPath` and in the path-suffixed form of §3.1,
 * which challenges then name. It also responds to preflights for these paths. Other requests are passed on. Mount it at the
 * root of the application.
 * @param target the object that you pass to `mcpAuth` or `mcpHandler`: OAuth options or an adapter.
 * @param options whether to serve a copy of the authorization server's metadata, too.
 * @returns middleware for Express, Connect, or a plain `http.createServer`.
 * @throws {KitMcpConfigError} if an option is invalid, or the adapter has no OAuth.
 * @example
 * ```ts
 * import express from 'express'
 * import { jwtVerifier, mcpAuth, protectedResourceRouter } from 'mcp-gatekit'
 *
 * const oauth = {
 *   issuer: 'https://auth.example.com',
 *   resource: 'https://mcp.example.com/mcp',
 *   verifyToken: jwtVerifier(),
 * }
 * express().use(protectedResourceRouter(oauth)).use('/mcp', mcpAuth(oauth))
 * ```
 * @see https://www.rfc-editor.org/rfc/rfc9728#section-3
 */
export function protectedResourceRouter(
  target: GateTarget,
  options: ProtectedResourceRouterOptions = {},
): NodeMiddleware {
  const resolved = resolveTarget(target)
  const { gate } = resolved
  const copy = copyFor(gate.options, options)
  gate.announceSuffixedMetadata()
  return function protectedResourceRouter(req, res, next = () => undefined) {
    const request = new NodeMcpRequest(req, res, gate.options.trustProxy)
    const { path, method } = request
    const isCopy = copy?.owns(path) === true
    if (!isCopy && !resolved.resource().owns(path)) return next()
    if (method === 'OPTIONS') {
      const headers = preflightHeaders(request.header('access-control-request-headers'))
      return writePlainResponse(req, res, { status: 204, headers })
    }
    if (isCopy) return void copy.respond(request).then((response) => writePlainResponse(req, res, response))
    const response = resolved.resource().respond(request)
    if (response === undefined) next()
    else writePlainResponse(req, res, response)
  }
}

function copyFor(
  { authorizationServers, authorizationServersOf, resource, allowInsecureHttp }: ResolvedOAuthOptions,
  options: ProtectedResourceRouterOptions,
): AuthorizationServerMetadata | undefined {
  const expected = 'must be an object such as { authorizationServerMetadata: true }'
  const read = checks.readOptions('protectedResourceRouter', expected, options, RULES, 'options')
  if (!read.authorizationServerMetadata) return undefined
  const unusable = (problem: string, fix: string) =>
    checks.unusableOption('authorizationServerMetadata', `must not be set ${problem}`, fix)
  if (authorizationServersOf !== undefined)
    throw unusable(
      'if authorizationServers is a function',
      'Remove the option, or set authorizationServers to a list.',
    )
  const [issuer] = authorizationServers as [string]
  const copy = new AuthorizationServerMetadata(issuer, resource, allowInsecureHttp)
  const problem = 'for an authorization server that has its own metadata at these paths'
  if (resource !== undefined && copy.isServedAt(new URL(resource).origin))
    throw unusable(problem, 'Remove the option.')
  return copy
}
