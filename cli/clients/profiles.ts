import { CLIENT_NAMES } from '../../src/base/client-names.ts'

export type ClientId = keyof typeof CLIENT_NAMES

/** The clients that `doctor --as` replays and that have a section in docs/guides/clients.md. */
export const CLIENT_IDS: readonly ClientId[] = Object.keys(CLIENT_NAMES) as ClientId[]

/** A request to the MCP endpoint without a token. */
export interface EndpointRequest {
  readonly method: 'POST' | 'GET' | 'HEAD'
  /** The message of a POST. */
  readonly message?: 'initialize' | 'server/discover'
  /** `undefined` if the client sends no `User-Agent`. */
  readonly userAgent: string | undefined
  readonly accept: string | undefined
  /** The `MCP-Protocol-Version` of a GET or HEAD. */
  readonly protocolVersion?: string
}

/**
 * A place where clients look for the resource metadata: the URL of the challenge, the well-known URL with the path of the
 * server, the path of the server followed by the well-known part, or the well-known URL of the host.
 */
export type MetadataPlace = 'challenge' | 'path' | 'appended' | 'root'

/** The forms of the metadata URL of an authorization server. For an issuer without a path, most of them are the same. */
export type IssuerForm =
  | 'oauth-inserted'
  | 'openid-inserted'
  | 'openid-appended'
  | 'oauth-root'
  | 'openid-root'

/**
 * The discovery of one client, as `doctor --as` replays it. docs/guides/clients.md says what it is based on, and which parts are
 * assumed.
 */
export interface ClientProfile {
  readonly name: string
  /** `true` if the client connects from the internet, so that it cannot reach a private network. */
  readonly hosted: boolean
  /** The requests to the MCP endpoint that begin the discovery. */
  readonly requests: readonly EndpointRequest[]
  /** The first request after the sign-in, if it differs from those before. Required if `requests` contains no POST. */
  readonly requestAfterSignIn?: EndpointRequest
  /** The headers of requests for metadata. */
  readonly metadataHeaders: Readonly<Record<string, string>>
  /** The `Accept` header of requests for the metadata of the authorization server, if it differs. */
  readonly issuerAccept?: string
  /** The places of the resource metadata, in order. */
  readonly places: readonly MetadataPlace[]
  /** `true` if the client tries the well-known URLs although the challenge names a URL. */
  readonly searchesOn: boolean
  /** The well-known places of which one must also have the document. */
  readonly requiredPlaces?: readonly MetadataPlace[]
  /** `exact` if `resource` must be the URL of the server, `parent` if it can be a parent of it. */
  readonly resource: 'exact' | 'parent'
  /** The forms of the metadata URL of the authorization server, in order. */
  readonly issuerForms: readonly IssuerForm[]
  /** `true` if `issuer` in the metadata must be the issuer that the resource names. */
  readonly comparesIssuer: boolean
  /** `true` if a 200 without JSON, or a 5xx, ends the search. */
  readonly isStrict: boolean
  /** The host whose `/authorize` the client opens if it finds no metadata of the authorization server. */
  readonly guesses?: 'server' | 'issuer' | undefined
  /** `true` if the client searches the host of the MCP server if the resource metadata is missing. */
  readonly acceptsServerAsIssuer: boolean
  /** `true` if `code_challenge_methods_supported` must be present. */
  readonly requiresListedPkce: boolean
  /** The ways to register, in order of preference. */
  readonly registration: readonly ('metadata-document' | 'dynamic')[]
  /** `true` if the client ID metadata document requires `none` among the authentication methods. */
  readonly metadataDocumentNeedsNone: boolean
  /** The sources of the requested scopes, in order. */
  readonly scopes: readonly ('challenge' | 'resource' | 'issuer')[]
  /** The URL of the source code or documentation that the profile is based on. */
  readonly source: string
}

const CODEX = 'codex-mcp-client/0.169.0'
const VS_CODE = 'Visual Studio Code/1.127.0'

/** Returns the handshake of a client. */
export function initializeAs(
  userAgent: string | undefined,
  accept = 'application/json, text/event-stream',
): EndpointRequest {
  return { method: 'POST', message: 'initialize', userAgent, accept }
}

/** The behavior of most clients, and of all clients of the official TypeScript SDK. */
const COMMON = {
  hosted: false,
  requests: [initializeAs('node')],
  metadataHeaders: { 'user-agent': 'node', 'mcp-protocol-version': '2025-11-25', accept: '*/*' },
  places: ['challenge', 'path', 'root'],
  searchesOn: false,
  resource: 'parent',
  issuerForms: ['oauth-inserted', 'openid-inserted', 'openid-appended'],
  comparesIssuer: false,
  isStrict: true,
  guesses: 'issuer',
  acceptsServerAsIssuer: true,
  requiresListedPkce: false,
  registration: ['metadata-document', 'dynamic'],
  metadataDocumentNeedsNone: true,
  scopes: ['challenge', 'resource'],
} as const

export const PROFILES: Readonly<Record<ClientId, ClientProfile>> = {
  claude: {
    ...COMMON,
    name: 'Claude',
    hosted: true,
    requests: [initializeAs('python-httpx/0.28.1', '*/*')],
    requestAfterSignIn: initializeAs('Claude-User'),
    metadataHeaders: { 'user-agent': 'python-httpx/0.28.1', accept: '*/*' },
    searchesOn: true,
    requiredPlaces: ['path'],
    issuerForms: ['oauth-inserted', 'openid-inserted'],
    isStrict: false,
    guesses: 'server',
    source: 'https://github.com/anthropics/claude-ai-mcp/issues/968',
  },
  'claude-code': {
    ...COMMON,
    name: 'Claude Code',
    requests: [],
    requestAfterSignIn: initializeAs('claude-code/2.1.197 (sdk-cli)'),
    metadataHeaders: { 'user-agent': 'Bun/1.4.0', 'mcp-protocol-version': '2025-11-25', accept: '*/*' },
    issuerAccept: 'application/json',
    places: ['path', 'root'],
    scopes: ['resource'],
    source: 'https://code.claude.com/docs/en/mcp',
  },
  chatgpt: {
    ...COMMON,
    name: 'ChatGPT',
    hosted: true,
    requests: [{ ...initializeAs('openai-mcp/1.0.0'), message: 'server/discover' }],
    metadataHeaders: { 'user-agent': 'openai-mcp/1.0.0', accept: 'application/json' },
    searchesOn: true,
    isStrict: false,
    acceptsServerAsIssuer: false,
    requiresListedPkce: true,
    metadataDocumentNeedsNone: false,
    source: 'https://developers.openai.com/apps-sdk/build/auth',
  },
  codex: {
    ...COMMON,
    name: 'Codex',
    requests: [{ method: 'GET', userAgent: CODEX, accept: '*/*', protocolVersion: '2024-11-05' }],
    requestAfterSignIn: initializeAs(CODEX),
    metadataHeaders: { 'user-agent': CODEX, 'mcp-protocol-version': '2024-11-05', accept: '*/*' },
    places: ['challenge', 'path', 'appended', 'root'],
    issuerForms: ['oauth-inserted', 'openid-inserted', 'openid-appended', 'oauth-root'],
    comparesIssuer: true,
    isStrict: false,
    guesses: 'server',
    scopes: ['challenge', 'resource', 'issuer'],
    source: 'https://github.com/modelcontextprotocol/rust-sdk/blob/main/crates/rmcp/src/transport/auth.rs',
  },
  cursor: {
    ...COMMON,
    name: 'Cursor',
    issuerAccept: 'application/json',
    requiredPlaces: ['path', 'root'],
    registration: ['dynamic'],
    source: 'https://github.com/jztan/redmine-mcp-server/issues/188',
  },
  vscode: {
    ...COMMON,
    name: 'VS Code',
    requests: [initializeAs(VS_CODE, 'text/event-stream, application/json')],
    metadataHeaders: {
      'user-agent': VS_CODE,
      'mcp-protocol-version': '2025-11-25',
      accept: 'application/json',
    },
    resource: 'exact',
    isStrict: false,
    guesses: 'server',
    metadataDocumentNeedsNone: false,
    source: 'https://github.com/microsoft/vscode/blob/main/src/vs/workbench/api/common/extHostMcp.ts',
  },
  gemini: {
    ...COMMON,
    name: 'Gemini CLI',
    requests: [initializeAs('node'), { method: 'HEAD', userAgent: 'node', accept: 'application/json' }],
    metadataHeaders: { 'user-agent': 'node', accept: '*/*' },
    searchesOn: true,
    resource: 'exact',
    issuerForms: ['oauth-inserted', 'openid-inserted', 'openid-appended', 'oauth-root', 'openid-root'],
    isStrict: false,
    guesses: undefined,
    registration: ['dynamic'],
    metadataDocumentNeedsNone: false,
    scopes: ['issuer'],
    source: 'https://github.com/google-gemini/gemini-cli/blob/main/packages/core/src/mcp/oauth-utils.ts',
  },
  inspector: {
    ...COMMON,
    name: 'MCP Inspector',
    issuerAccept: 'application/json',
    metadataDocumentNeedsNone: false,
    source: 'https://github.com/modelcontextprotocol/inspector/pull/2113',
  },
}
