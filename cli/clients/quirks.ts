import type { ClientId } from './client-id.ts'

/** A behavior of some clients that differs from the specifications or from other clients. */
export interface Quirk {
  readonly clients: readonly ClientId[]
  /** Clients of which only older versions have the behavior. */
  readonly formerClients?: readonly ClientId[]
  /** Names of clients with the same behavior that have no profile. */
  readonly others?: readonly string[]
  /** The behavior, in Markdown. */
  readonly behavior: string
  /** URLs of reports, documentation, or source code. */
  readonly sources: readonly string[]
  /** The date of the newest report that was read, or the date on which an undated source was read, as YYYY-MM-DD. */
  readonly seen: string
  /** The measure that a server or an authorization server can take, in Markdown. */
  readonly remedy: string
  /** The setting of this package, in Markdown. */
  readonly setting?: string
  /** The ID of the check of `doctor` that looks for it. */
  readonly check?: string
}

/** All known quirks. docs/guides/clients.md and the checks of `doctor` are based on this table. */
export const QUIRKS = {
  'claude-user-agent': {
    clients: ['claude'],
    behavior:
      'After the sign-in, requests come from 160.79.104.0/21 with the `User-Agent` `Claude-User`. Discovery and token requests use `python-httpx`. Firewalls that block AI bots reject only the former, so that the sign-in succeeds and no request follows.',
    sources: [
      'https://github.com/anthropics/claude-ai-mcp/issues/1061',
      'https://github.com/anthropics/claude-ai-mcp/issues/968',
      'https://github.com/anthropics/claude-ai-mcp/issues/49',
    ],
    seen: '2026-09-21',
    remedy:
      'Allow `Claude-User` in the firewall, or exempt the path of the MCP endpoint and `/.well-known/`. In Cloudflare, check Security → Bots → Block AI bots, and AI Crawl Control → Security.',
    check: 'edge.user-agents',
  },
  'missing-user-agent': {
    clients: ['claude'],
    formerClients: ['claude-code'],
    behavior:
      'Claude sends some requests without a `User-Agent` header. Reports of April 2026 say the same of discovery and token requests of Claude Code. Claude Code 2.1.197 sends `Bun/1.4.0` with them. Firewalls that require the header reject such requests.',
    sources: [
      'https://github.com/anthropics/claude-code/issues/47390',
      'https://github.com/anthropics/claude-ai-mcp/issues/923',
    ],
    seen: '2026-08-25',
    remedy: 'Accept requests without a `User-Agent` header at the MCP endpoint and below `/.well-known/`.',
    check: 'edge.user-agents',
  },
  'blocked-user-agent': {
    clients: ['chatgpt'],
    behavior:
      'Requests have the `User-Agent` `openai-mcp/1.0.0`. Rules against AI bots can match it in the same way.',
    sources: ['https://openai.com/bot'],
    seen: '2026-11-22',
    remedy: 'Allow `openai-mcp` in the firewall.',
    check: 'edge.user-agents',
  },
  'strips-slash': {
    clients: ['claude'],
    behavior:
      'A slash at the end of the URL is removed. Claude does not follow the redirect with which many frameworks respond to `/mcp`.',
    sources: [
      'https://github.com/anthropics/claude-ai-mcp/issues/1056',
      'https://github.com/anthropics/claude-ai-mcp/issues/234',
      'https://github.com/anthropics/claude-ai-mcp/issues/299',
    ],
    seen: '2026-09-18',
    remedy: 'Respond at both spellings of the URL, without a redirect.',
    setting: 'Nothing. Express routes both spellings, unless `strict routing` is enabled.',
    check: 'endpoint.trailing-slash',
  },
  'guesses-endpoints': {
    clients: ['claude'],
    behavior:
      'If Claude does not find the metadata of the authorization server, it opens `/authorize` on the host of the MCP server, even if the resource metadata names another host.',
    sources: [
      'https://github.com/anthropics/claude-ai-mcp/issues/341',
      'https://github.com/anthropics/claude-ai-mcp/issues/706',
    ],
    seen: '2026-07-26',
    remedy: 'Serve a copy of the metadata of the authorization server on the host of the MCP server.',
    setting: '`protectedResourceRouter(target, { authorizationServerMetadata: true })`',
    check: 'client.discovery',
  },
  'needs-path-metadata': {
    clients: ['claude'],
    behavior:
      'If only `/.well-known/oauth-protected-resource` exists, and not the form with the path of the MCP endpoint, Claude opens `/authorize` on the host of the MCP server.',
    sources: ['https://github.com/anthropics/claude-ai-mcp/issues/716'],
    seen: '2026-07-28',
    remedy: 'Serve the resource metadata at both well-known URLs.',
    setting: '`mcpServer` and `protectedResourceRouter` serve both.',
    check: 'client.discovery',
  },
  'relative-metadata-url': {
    clients: ['claude'],
    behavior: 'A relative `resource_metadata` in the challenge is ignored.',
    sources: ['https://github.com/anthropics/claude-ai-mcp/issues/136'],
    seen: '2026-04-07',
    remedy: 'Send an absolute URL.',
    setting: 'The challenge always contains an absolute URL.',
    check: 'challenge.resource-metadata',
  },
  'issuer-path': {
    clients: ['claude'],
    behavior:
      'For an issuer with a path, only the forms with the well-known part in front of the path were tried. A fix was in review on 2026-05-12.',
    sources: [
      'https://github.com/anthropics/claude-ai-mcp/issues/82',
      'https://github.com/anthropics/claude-ai-mcp/issues/214',
    ],
    seen: '2026-05-12',
    remedy:
      'Serve the metadata of the authorization server at `/.well-known/oauth-authorization-server` followed by the path of the issuer (RFC 8414 §3.1).',
    setting: '`protectedResourceRouter(target, { authorizationServerMetadata: true })`',
    check: 'issuer.path-forms',
  },
  'cimd-needs-none': {
    clients: ['claude', 'claude-code', 'codex'],
    behavior:
      'A client ID metadata document is used only if the authorization server also lists `none` in `token_endpoint_auth_methods_supported`. Otherwise, the client registers dynamically, without a message.',
    sources: [
      'https://claude.com/docs/connectors/building/authentication',
      'https://github.com/home-assistant/core/issues/179326',
    ],
    seen: '2026-09-03',
    remedy:
      'Advertise both `client_id_metadata_document_supported: true` and `none` in `token_endpoint_auth_methods_supported`.',
    check: 'issuer.cimd',
  },
  'registers-anyway': {
    clients: ['claude'],
    behavior:
      'Claude can register dynamically although the user has selected the client ID metadata document.',
    sources: ['https://github.com/brendanlong/lion-reader/issues/986'],
    seen: '2026-09-01',
    remedy: 'Keep dynamic registration enabled at the authorization server.',
    check: 'issuer.registration',
  },
  'origin-resource': {
    clients: ['claude', 'claude-code'],
    behavior:
      'If `resource` is an origin without a path, the token request contains it with a slash at the end. A server that compares `aud` exactly then rejects every token.',
    sources: [
      'https://github.com/anthropics/claude-code/issues/52871',
      'https://github.com/sigbit/mcp-auth-proxy/issues/123',
    ],
    seen: '2026-11-22',
    remedy: 'Accept both spellings of an audience that is only an origin (RFC 3986 §6.2.3).',
    setting: 'The verifiers accept both spellings of an audience that is only an origin.',
    check: 'token.accepted',
  },
  'needs-status-401': {
    clients: ['claude'],
    behavior:
      'Only a 401 starts a sign-in, and only a 403 with `insufficient_scope` asks for more scopes. A result with `isError` does neither.',
    sources: ['https://claude.com/docs/connectors/building/lazy-authentication'],
    seen: '2026-11-22',
    remedy: 'Respond with 401 and 403.',
    setting: "Leave `oauth.challengeInResult` at `false`, or set it to `'auto'`.",
    check: 'auth.required',
  },
  'refresh-without-scope': {
    clients: ['claude-code'],
    behavior:
      'The refresh request contains no `scope`. Microsoft Entra ID then issues a token with another `scp`, and the server responds with 401 after an hour.',
    sources: ['https://github.com/anthropics/claude-code/issues/89862'],
    seen: '2026-08-26',
    remedy: 'Configure the authorization server to keep the scopes of the grant (RFC 6749 §6).',
  },
  'step-up-unsupported': {
    clients: ['claude-code'],
    behavior: 'A 403 with `insufficient_scope` is shown as an expired token.',
    sources: [
      'https://github.com/anthropics/claude-code/issues/92518',
      'https://github.com/anthropics/claude-code/issues/68720',
    ],
    seen: '2026-09-06',
    remedy: 'Request the scopes of frequently used tools at the first sign-in.',
    setting: 'Add them to `oauth.scopes`.',
  },
  'stale-client': {
    clients: ['claude-code', 'claude'],
    behavior:
      'A registered `client_id` is used forever. The client registers again only if the token endpoint responds with 401 and `invalid_client`.',
    sources: [
      'https://github.com/anthropics/claude-code/issues/84614',
      'https://github.com/supabase-community/supabase-mcp/issues/355',
    ],
    seen: '2026-11-22',
    remedy: 'Respond with 401 and `invalid_client` to an unknown `client_id` (RFC 6749 §5.2).',
    check: 'issuer.register',
  },
  'bare-origin': {
    clients: ['claude-code'],
    behavior: 'If the server has a path prefix, discovery falls back to the origin.',
    sources: ['https://github.com/anthropics/claude-code/issues/85563'],
    seen: '2026-11-22',
    remedy: 'Serve the metadata documents at the root of the host, too.',
    setting:
      'Mount `protectedResourceRouter` at the root of the application. If a proxy adds the prefix, forward `/.well-known/` as well.',
    check: 'client.discovery',
  },
  'registers-despite-id': {
    clients: ['claude-code'],
    behavior: 'A configured client ID does not prevent the attempt to register dynamically.',
    sources: ['https://github.com/anthropics/claude-code/issues/67258'],
    seen: '2026-11-22',
    remedy: 'None.',
  },
  'registration-null-members': {
    clients: ['claude-code', 'cursor', 'inspector'],
    behavior:
      'A response to a registration with members that are `null`, or with empty strings for URLs, fails the validation of the official SDK.',
    sources: [
      'https://github.com/anthropics/claude-code/issues/52565',
      'https://github.com/ory/hydra/issues/4116',
      'https://github.com/modelcontextprotocol/typescript-sdk/issues/940',
    ],
    seen: '2026-07-22',
    remedy: 'Leave out members without a value.',
    check: 'issuer.register',
  },
  'registers-without-scope': {
    clients: ['claude-code'],
    others: ['GitHub Copilot CLI'],
    behavior:
      'The registration contains no `scope`, and the sign-in then requests the scopes of the resource. Authorization servers that limit a client to the scopes of its registration respond with `invalid_scope`.',
    sources: [
      'https://github.com/appstrate/appstrate/issues/1267',
      'https://github.com/dozigden/boardoil/issues/11',
    ],
    seen: '2026-09-05',
    remedy: 'Allow all scopes of the resource to clients that register without a `scope`.',
    check: 'issuer.register',
  },
  'result-tokens': {
    clients: ['claude-code'],
    behavior:
      'Results of more than 10,000 tokens cause a warning, and results of more than 25,000 tokens are cut off. `_meta["anthropic/maxResultSizeChars"]` of a tool increases the limit.',
    sources: ['https://claude.com/docs/connectors/faq', 'https://code.claude.com/docs/en/mcp'],
    seen: '2026-11-22',
    remedy: 'Return pages, or set `_meta["anthropic/maxResultSizeChars"]` for the tool.',
    setting: "`.tool('export', { _meta: { 'anthropic/maxResultSizeChars': 200_000 }, … }, …)`",
    check: 'tools.result-size',
  },
  'result-characters': {
    clients: ['claude'],
    behavior: 'Results of more than about 150,000 characters are rejected.',
    sources: ['https://claude.com/docs/connectors/faq'],
    seen: '2026-11-22',
    remedy: 'Return pages.',
    check: 'tools.result-size',
  },
  'tool-names': {
    clients: ['claude', 'claude-code', 'chatgpt', 'codex'],
    behavior:
      'Names of tools can have at most 64 characters from `A-Z a-z 0-9 _ -`. Some clients add a prefix, which counts as well.',
    sources: [
      'https://github.com/anthropics/claude-plugins-official/tree/main/plugins/mcp-server-dev/skills/build-mcp-app/references',
    ],
    seen: '2026-05-03',
    remedy: 'Use short names without dots and slashes.',
    check: 'tools.directory',
  },
  'directory-hints': {
    clients: ['claude', 'chatgpt'],
    behavior:
      'The directories accept only tools that have a `title` and `readOnlyHint` or `destructiveHint`. That of ChatGPT also requires `openWorldHint`.',
    sources: [
      'https://claude.com/docs/connectors/faq',
      'https://developers.openai.com/apps-sdk/app-submission-guidelines',
    ],
    seen: '2026-11-22',
    remedy: 'Set `title` and `annotations` of every tool.',
    setting: "`.tool('list', { title: 'List notes', annotations: { readOnlyHint: true }, … }, …)`",
    check: 'tools.directory',
  },
  'sign-in-from-result': {
    clients: ['chatgpt'],
    behavior:
      'A tool call asks for a sign-in only if the response is a 200 with `isError` and `_meta["mcp/www_authenticate"]`. A 401 does not open the dialog.',
    sources: [
      'https://developers.openai.com/apps-sdk/build/auth',
      'https://github.com/mcp-use/mcp-use/pull/2611',
    ],
    seen: '2026-09-21',
    remedy: 'Send the challenge in the result of the tool.',
    setting: "`oauth.challengeInResult: 'auto'`",
  },
  'security-schemes': {
    clients: ['chatgpt'],
    behavior: 'Each tool should state in `securitySchemes` whether it needs a sign-in and which scopes.',
    sources: [
      'https://developers.openai.com/apps-sdk/build/auth',
      'https://github.com/modelcontextprotocol/modelcontextprotocol/issues/1488',
    ],
    seen: '2026-09-15',
    remedy: 'Add `_meta.securitySchemes` to each tool.',
    setting: '`oauth.securitySchemes: true`',
  },
  'empty-scope': {
    clients: ['chatgpt'],
    behavior:
      'If the resource metadata lists no scopes, the authorization request contains an empty `scope`, which strict authorization servers reject with `invalid_scope`.',
    sources: ['https://github.com/PrefectHQ/fastmcp/issues/1794'],
    seen: '2026-11-22',
    remedy: 'List at least one scope in the resource metadata.',
    setting: '`oauth.scopes` or `oauth.scopesSupported`',
    check: 'client.discovery',
  },
  'no-client-credentials': {
    clients: ['chatgpt', 'claude'],
    behavior: 'Client credentials, API keys, and pasted tokens are not supported. Every user signs in.',
    sources: ['https://claude.com/docs/connectors/building/authentication'],
    seen: '2026-11-22',
    remedy: 'Support the authorization code flow.',
    check: 'issuer.endpoints',
  },
  'pkce-must-be-listed': {
    clients: ['chatgpt'],
    behavior: '`code_challenge_methods_supported` must contain `S256`, even if PKCE works.',
    sources: ['https://developers.openai.com/apps-sdk/build/auth'],
    seen: '2026-11-22',
    remedy: 'List `S256` in the metadata of the authorization server.',
    check: 'issuer.pkce',
  },
  'issuer-scopes': {
    clients: ['gemini'],
    formerClients: ['codex'],
    behavior:
      'The client requests all scopes that the metadata of the authorization server lists, not those of the challenge or of the resource metadata. Reports up to September 2026 say the same of Codex, which retries without scopes if the authorization server rejects them. Codex CLI 0.169.0 requests the scopes of the challenge.',
    sources: [
      'https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/mcp/oauth-utils.ts',
      'https://github.com/openai/codex/issues/15643',
      'https://github.com/openai/codex/issues/35253',
    ],
    seen: '2026-11-22',
    remedy:
      'List the scopes of the resource in the metadata of the authorization server, and few others. Users can also configure the scopes.',
    check: 'issuer.scopes',
  },
  'ignores-challenge': {
    clients: ['codex'],
    formerClients: ['inspector'],
    others: ['goose'],
    behavior:
      'The client does not always read `resource_metadata` of the challenge. Codex sends a GET first and reads the challenge only if that gets a 401. Versions of the Inspector before September 2026 use only the well-known URLs.',
    sources: [
      'https://github.com/openai/codex/issues/42427',
      'https://github.com/modelcontextprotocol/inspector/issues/576',
      'https://github.com/modelcontextprotocol/inspector/pull/2113',
    ],
    seen: '2026-11-22',
    remedy: 'Serve the resource metadata at the well-known URLs, and require the token for GET, too.',
    setting: 'Leave `oauth.resourceMetadataPath` unset.',
    check: 'client.discovery',
  },
  'error-in-challenge': {
    clients: ['codex'],
    behavior: 'Codex Desktop starts a sign-in only if the challenge of the 401 has no `error`.',
    sources: ['https://github.com/ctxpipe-ai/ctxpipe/pull/156'],
    seen: '2026-05-04',
    remedy: 'Send no `error` to a request without a token (RFC 6750 §3.1).',
    setting: "`oauth.challengeWithoutToken: 'bare'`",
    check: 'client.discovery',
  },
  'body-at-endpoint': {
    clients: ['codex'],
    others: ['goose'],
    behavior:
      'A GET of the URL of the server without a token that gets a 200 without JSON ended the discovery of the Rust SDK.',
    sources: [
      'https://github.com/aaif-goose/goose/pull/8583',
      'https://github.com/modelcontextprotocol/rust-sdk/pull/810',
    ],
    seen: '2026-04-16',
    remedy: 'Respond to a GET without a token with 401 or 405.',
    setting: 'Mount the gate for all methods: `app.use(path, mcpAuth(adapter))`.',
    check: 'wellknown.format',
  },
  'well-known-html': {
    clients: ['claude', 'claude-code', 'cursor', 'inspector'],
    behavior:
      'A well-known URL that responds with HTML, a redirect to a sign-in page, or a 401 ends the discovery instead of leading to the next URL.',
    sources: [
      'https://github.com/outline/outline/issues/11572',
      'https://github.com/modelcontextprotocol/inspector/issues/1288',
    ],
    seen: '2026-05-12',
    remedy: 'Respond to well-known URLs with JSON or with 404, without requiring a token.',
    setting:
      'Mount `protectedResourceRouter` before the gate and before the routes of a single-page application.',
    check: 'wellknown.format',
  },
  'cursor-redirect': {
    clients: ['cursor'],
    behavior:
      'The registration contains three redirect URIs: `cursor://anysphere.cursor-mcp/oauth/callback`, `https://www.cursor.com/agents/mcp/oauth/callback`, and `http://localhost:8787/callback`. Authorization servers that do not allow one of them reject the whole registration.',
    sources: [
      'https://github.com/soflyy/agent-connector-for-wp/issues/111',
      'https://github.com/mcpmux/mcp-mux/pull/152',
      'https://github.com/makeplane/plane-mcp-server/issues/159',
    ],
    seen: '2026-09-11',
    remedy: 'Allow all three redirect URIs at the authorization server.',
    check: 'issuer.register',
  },
  'cursor-guesses': {
    clients: ['cursor'],
    behavior:
      'If the authorization server has no metadata at `/.well-known/oauth-authorization-server`, Cursor opens `/authorize` of the issuer.',
    sources: ['https://github.com/jztan/redmine-mcp-server/issues/188'],
    seen: '2026-07-21',
    remedy: 'Serve the metadata at the issuer, or name an issuer that serves it.',
    setting: '`protectedResourceRouter(target, { authorizationServerMetadata: true })`',
    check: 'client.discovery',
  },
  'forgets-metadata-url': {
    clients: ['cursor'],
    behavior: 'The URL of the resource metadata is lost during the redirect to the browser.',
    sources: ['https://forum.cursor.com/t/160328', 'https://forum.cursor.com/t/151331'],
    seen: '2026-11-22',
    remedy: 'Serve the resource metadata at the well-known URL with the path of the MCP endpoint.',
    setting: 'Leave `oauth.resourceMetadataPath` unset.',
    check: 'client.discovery',
  },
  'requests-all-scopes': {
    clients: ['vscode', 'cursor'],
    behavior:
      'If the challenge names no scope, the client requests all scopes of the resource metadata. VS Code has no setting for this.',
    sources: [
      'https://github.com/microsoft/vscode/issues/316235',
      'https://github.com/containers/kubernetes-mcp-server/pull/258',
    ],
    seen: '2026-08-25',
    remedy: 'List only the scopes that every user needs.',
    setting: '`oauth.scopesSupported`. The challenge always names `oauth.scopes`.',
    check: 'issuer.scopes',
  },
  'exact-resource': {
    clients: ['vscode', 'gemini'],
    behavior: '`resource` must be the URL of the server, including a slash at the end.',
    sources: [
      'https://github.com/microsoft/vscode/blob/main/src/vs/base/common/oauth.ts',
      'https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/mcp/oauth-utils.ts',
    ],
    seen: '2026-08-21',
    remedy: 'Set `resource` to exactly the URL that users enter.',
    setting: '`oauth.resource`',
    check: 'metadata.resource',
  },
  'loopback-port': {
    clients: ['vscode'],
    behavior:
      'The registration contains `http://127.0.0.1/` and `http://127.0.0.1:33418/`, and the sign-in can use another port. Authorization servers that compare the port reject it (RFC 8252 §7.3 forbids that).',
    sources: ['https://github.com/microsoft/vscode/issues/278512'],
    seen: '2026-11-22',
    remedy: 'Ignore the port of loopback redirect URIs at the authorization server.',
    check: 'issuer.register',
  },
  'offline-access': {
    clients: ['claude', 'claude-code', 'codex', 'inspector'],
    behavior:
      'The client registers with the scopes of the resource and then also requests `offline_access`. Strict authorization servers respond with `invalid_scope`.',
    sources: ['https://github.com/formbricks/formbricks/pull/8406'],
    seen: '2026-07-02',
    remedy: 'Allow `offline_access` to every client that may use refresh tokens.',
    check: 'issuer.register',
  },
  'copy-of-metadata': {
    clients: [],
    others: ['prime-agent before 2026-08'],
    behavior: 'The metadata of the authorization server is searched only on the host of the MCP server.',
    sources: ['https://github.com/PrimeIntellect-ai/prime-agent/issues/766'],
    seen: '2026-08-06',
    remedy: 'Serve a copy of the metadata of the authorization server on the host of the MCP server.',
    setting: '`protectedResourceRouter(target, { authorizationServerMetadata: true })`',
  },
  'first-request-401': {
    clients: [],
    others: ['Grok'],
    behavior:
      'The sign-in starts only if `initialize` gets a 401, and the resource metadata must exist at the URL with the path.',
    sources: ['https://github.com/koala73/worldmonitor/pull/8321'],
    seen: '2026-09-18',
    remedy: 'Require the token from the first request on.',
    setting: 'The gate requires the token from the first request on, and both forms of the document exist.',
    check: 'auth.required',
  },
  'empty-401': {
    clients: [],
    others: ['the Gemini app'],
    behavior:
      'A 401 with an empty body counts as an unreachable server, and the resource metadata must contain `bearer_methods_supported`.',
    sources: ['https://github.com/kentcdodds/kody/pull/944'],
    seen: '2026-07-25',
    remedy: 'Send a JSON body with the 401.',
    setting: 'The 401 has a JSON body, and the resource metadata contains the member.',
  },
} as const

export type QuirkId = keyof typeof QUIRKS

/** Returns a quirk by its ID. */
export function quirkOf(id: QuirkId): Quirk {
  return QUIRKS[id]
}
