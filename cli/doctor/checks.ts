import { CLIENT } from './checks/client.ts'
import { CORS } from './checks/cors.ts'
import { EVENTS } from './checks/events.ts'
import { ISSUERS } from './checks/issuers.ts'
import { METADATA } from './checks/metadata.ts'
import { PROTECTION } from './checks/protection.ts'
import { PROTOCOL } from './checks/protocol.ts'
import { SERVER } from './checks/server.ts'
import { SERVER_CARD } from './checks/server-card.ts'
import { SIGN_IN_FLAWS } from './checks/sign-in-flaws.ts'
import { TOKENS } from './checks/tokens.ts'
import { TOOLS } from './checks/tools.ts'
import type { CheckFunction, CheckFunctions } from './examination.ts'

const FUNCTIONS: CheckFunctions = Object.assign(
  {},
  ...[CLIENT, CORS, EVENTS, ISSUERS, METADATA, PROTECTION, PROTOCOL, SERVER_CARD, SERVER, SIGN_IN_FLAWS],
  ...[TOKENS, TOOLS],
)

type Row = readonly [id: string, title: string, ...needs: string[]]

/** One check of a server. Its ID `group.name` never changes once published, because CI configurations use it. */
export type Check = ReturnType<typeof groupOf>[number]

/** @param group the heading in the report */
function groupOf(group: string, rows: readonly Row[]) {
  return rows.map(([id, title, ...needs]) => ({
    id,
    group,
    title,
    needs,
    run: FUNCTIONS[id] as CheckFunction,
  }))
}

/** All checks in order: the ID, a title that is true if the check succeeds, and the checks that must succeed first. */
export const CHECKS: readonly Check[] = [
  ...groupOf('Server', [
    ['server.reachable', 'The server responds'],
    ['server.tls', 'The connection is encrypted', 'server.reachable'],
    ['server.endpoint', 'The URL is an MCP endpoint', 'server.reachable'],
    ['edge.user-agents', 'No firewall blocks the requests of a client', 'server.endpoint'],
    ['endpoint.trailing-slash', 'A slash at the end of the URL makes no difference', 'server.endpoint'],
  ]),
  ...groupOf('Protection', [
    ['auth.required', 'Requests without a token get a 401', 'server.endpoint'],
    ['auth.methods', 'GET and DELETE are protected', 'auth.required'],
    ['challenge.present', 'The 401 contains a Bearer challenge', 'auth.required'],
    ['challenge.syntax', 'The challenge is well-formed', 'challenge.present'],
    ['challenge.order', 'All clients can read the challenge', 'challenge.syntax'],
    ['challenge.resource-metadata', 'The challenge contains the URL of the metadata', 'challenge.syntax'],
    ['challenge.scope', 'The challenge names valid scopes', 'challenge.syntax'],
    ['public.operations', 'Clients can distinguish public operations from protected ones', 'auth.required'],
  ]),
  ...groupOf('Resource metadata', [
    ['metadata.found', 'Clients find the metadata document', 'server.endpoint'],
    ['metadata.resource', 'The resource in the metadata is the URL that clients use', 'metadata.found'],
    ['metadata.authorization-servers', 'The metadata names an authorization server', 'metadata.found'],
    ['metadata.members', 'The other members of the metadata are valid', 'metadata.found'],
    ['wellknown.format', 'Well-known URLs respond with JSON or 404', 'server.endpoint'],
  ]),
  ...groupOf('Authorization servers', [
    [
      'issuer.metadata',
      'Clients find the metadata of each authorization server',
      'metadata.authorization-servers',
    ],
    ['issuer.identity', 'The issuer in the metadata matches the resource metadata', 'issuer.metadata'],
    ['issuer.endpoints', 'The authorization code flow is available', 'issuer.metadata'],
    ['issuer.pkce', 'PKCE with S256 is supported', 'issuer.metadata'],
    ['issuer.registration', 'New clients can register', 'issuer.metadata'],
    ['issuer.path-forms', 'Every client finds the metadata of an issuer with a path', 'issuer.metadata'],
    ['issuer.cimd', 'Client ID metadata documents work', 'issuer.metadata'],
    ['issuer.scopes', 'The authorization server lists the scopes of the resource', 'issuer.metadata'],
    ['issuer.register', 'Clients of every kind can register', 'issuer.metadata'],
  ]),
  ...groupOf('Tokens', [
    ['token.wrong', 'A random token is rejected', 'auth.required'],
    ['token.forged', 'A token that is signed with another key is rejected', 'token.wrong'],
    ['token.unsigned', 'A token without a signature is rejected', 'token.forged'],
    ['token.expired', 'An expired forged token is rejected', 'token.forged'],
    ['token.login', 'Signing in returns a token', 'server.endpoint'],
    ['edge.proxy', 'The Authorization header reaches the server', 'auth.required'],
    ['token.accepted', 'The token is accepted', 'auth.required'],
    ['token.claims', 'The token does not contradict the metadata', 'auth.required'],
    ['token.scheme-case', 'The Authorization scheme is case-insensitive', 'token.accepted'],
    ['token.under-scoped', 'A token without a required scope gets a challenge', 'auth.required'],
  ]),
  ...groupOf('Protocol', [
    ['protocol.revisions', 'A current protocol revision is supported', 'server.endpoint'],
    ['protocol.version-header', 'An unknown protocol version is rejected', 'protocol.revisions'],
    ['protocol.header-mismatch', 'Headers that contradict the message are rejected', 'protocol.revisions'],
    ['protocol.bad-json', 'A body that is not JSON is rejected', 'protocol.revisions'],
  ]),
  ...groupOf('Calls', [
    ['call.round-trip', 'A request without side effects succeeds', 'protocol.revisions'],
    ['call.tools-list', 'The tools can be listed', 'protocol.revisions'],
    ['call.tool', 'The tool of --call can be called', 'protocol.revisions'],
    ['session.other-user', 'A second user cannot use the session of the first', 'protocol.revisions'],
    ['tools.directory', 'The tools meet the rules of clients and directories', 'call.tools-list'],
    ['tools.size', 'The definitions of the tools are not too large', 'call.tools-list'],
    ['tools.result-size', 'The result of the tool of --call is not too large', 'call.tool'],
  ]),
  ...groupOf('Events', [
    ['events.capability', 'The server serves the events that it declares', 'protocol.revisions'],
    ['events.list', 'The event types are valid', 'events.capability'],
    ['events.methods', 'The methods of every delivery exist', 'events.list'],
    ['events.wrong-challenge', 'A webhook with a wrong answer to its challenge is refused', 'events.methods'],
    ['events.challenge', 'A webhook is verified by a challenge', 'events.methods'],
    ['events.signature', 'The challenge is signed', 'events.challenge'],
    ['events.delivery', 'An event reaches the webhook', 'events.challenge'],
    ['events.unsubscribe', 'The client can end the webhook', 'events.delivery'],
  ]),
  ...groupOf('Server card', [
    ['card.valid', 'The server card is valid', 'server.endpoint'],
    ['card.remote', 'The server card leads to the URL that clients use', 'card.valid'],
    ['card.discover', 'The server card says what server/discover says', 'card.valid', 'protocol.revisions'],
    ['card.catalog', 'The catalog of the host leads to the server card', 'card.valid'],
    ['card.cors', 'Web pages can read the server card', 'card.valid'],
  ]),
  ...groupOf('CORS', [
    ['cors.preflight', 'Preflights work without a token', 'server.endpoint'],
    ['cors.headers', 'All headers that clients send are allowed', 'cors.preflight'],
    ['cors.responses', 'Web pages can read every response', 'cors.preflight'],
    ['cors.exposed', 'Web pages can read the headers that clients need', 'cors.responses'],
    ['cors.metadata', 'Web pages can read the metadata document', 'cors.preflight', 'metadata.found'],
    ['issuer.cors', 'Web pages can use the authorization servers', 'cors.preflight', 'issuer.metadata'],
  ]),
  ...groupOf('Origin and Host', [
    ['origin.foreign', 'A web page of an unknown origin is rejected', 'server.endpoint'],
    ['host.foreign', 'An unknown host name is rejected', 'server.endpoint'],
    ['host.forwarded', 'Forwarded headers of a client are ignored', 'challenge.resource-metadata'],
  ]),
  ...groupOf('Sign-in flaws', [
    ['flaw.registration', 'Clients cannot register a harmful redirect URI', 'issuer.metadata'],
    ['flaw.unknown-client', 'A client that is not registered cannot start a sign-in', 'issuer.endpoints'],
    ['flaw.upstream-pkce', 'The request to the identity provider uses PKCE', 'issuer.endpoints'],
    ['flaw.upstream-context', 'The state at the identity provider has no addresses', 'issuer.endpoints'],
    ['flaw.pkce', 'A sign-in without PKCE is refused', 'issuer.endpoints', 'issuer.pkce'],
    ['flaw.consent', 'A sign-in is needed for a code', 'issuer.endpoints'],
    ['flaw.redirect', 'A redirect URI that is not registered is refused', 'issuer.endpoints'],
    ['flaw.upstream-state', 'The state at the identity provider cannot be guessed', 'issuer.endpoints'],
    ['flaw.code-replay', 'A code can be used only once', 'token.login'],
  ]),
  ...groupOf('Client', [['client.discovery', 'The client of --as finds out where to sign in', 'server.tls']]),
  ...groupOf('Limits', [['limit.rate', 'A rate limit states when to retry', 'server.reachable']]),
]
