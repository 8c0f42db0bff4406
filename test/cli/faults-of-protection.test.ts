import type { Incoming } from '../support/cli/doctor-target.ts'
import { challenge, itReports, json, members, metadata } from '../support/cli/faults.ts'

const isPost = ({ method, path }: Incoming): boolean => method === 'POST' && path === '/mcp'

const emptyResponse = (status: number) => ({
  instead: (request: Incoming) =>
    isPost(request) ? { status, headers: { 'content-type': 'text/html' } } : undefined,
})

/** Returns the claims of the JWT in a request. */
function claimsOf({ headers }: Incoming): any {
  const [, payload] = /^Bearer [\w-]+\.([\w-]+)\./.exec(headers.authorization ?? '') ?? []
  return payload === undefined ? undefined : JSON.parse(Buffer.from(payload, 'base64url').toString())
}

const algorithmOf = ({ headers }: Incoming): unknown => {
  const [, encoded] = /^Bearer ([\w-]+)\./.exec(headers.authorization ?? '') ?? []
  return encoded === undefined ? undefined : JSON.parse(Buffer.from(encoded, 'base64url').toString()).alg
}

const isForged = (request: Incoming): boolean => claimsOf(request)?.sub === 'mcp-gatekit-doctor'

describe('doctor, for a fault in the protection of a server,', () => {
  describe('at the endpoint,', () =>
    itReports([
      {
        what: 'a URL with another path',
        ...emptyResponse(404),
        finds: ['server.endpoint: fail', /404/, /with its path/],
      },
      {
        what: 'an endpoint that supports only GET',
        ...emptyResponse(405),
        finds: ['server.endpoint: fail', /405/, /accept POST/],
      },
      {
        what: 'a server that is down behind a proxy',
        ...emptyResponse(502),
        finds: ['server.endpoint: fail', /502/, /logs of the server/],
      },
      {
        what: 'a rate limit that has been reached',
        instead: (request) =>
          isPost(request) ? { status: 429, headers: { 'retry-after': '7' } } : undefined,
        finds: ['server.endpoint: fail', /429/, /wait/],
      },
    ]))

  describe('in the gate,', () =>
    itReports([
      {
        what: 'a server without a gate',
        open: true,
        finds: ['auth.required: fail', /work without a token/, /mcpAuth before the handler/],
        asked: { underScopedToken: undefined, call: 'greet' },
      },
      {
        what: 'a gate that responds with 403 without a token',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined) answer.status = 403
        },
        finds: ['auth.required: fail', /403/, /respond with 401/],
      },
      {
        what: 'a gate that responds with an error and status 200',
        instead: ({ method, path, headers }) =>
          method === 'POST' && path === '/mcp' && headers.authorization === undefined
            ? json({ error: { code: -32_001, message: 'Unauthorized' } })
            : undefined,
        finds: [
          'auth.required: fail',
          /^200, JSON-RPC error -32001: "Unauthorized" for a request without a token$/,
          /respond with 401/,
        ],
      },
      {
        what: 'a gate that allows the handshake without a token',
        instead: ({ message, headers }) =>
          message?.method === 'initialize' && headers.authorization === undefined
            ? {
                headers: {
                  'content-type': 'application/json',
                  'access-control-allow-origin': '*',
                },
                body: '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}',
              }
            : undefined,
        finds: ['auth.required: warn', /tools\/list does not/, /first request/],
        // Web pages of unknown origins get the handshake, too.
        asked: { ignore: ['origin.foreign', 'host.foreign'] },
      },
      {
        what: 'a gate that checks only POST',
        instead: ({ method, path }) =>
          method === 'GET' && path === '/mcp'
            ? { headers: { 'content-type': 'text/event-stream' }, body: ': open\n\n' }
            : undefined,
        finds: ['auth.methods: fail', /GET: 200/, /every method/],
      },
    ]))

  describe('in the challenge,', () =>
    itReports([
      {
        what: 'a 401 without a challenge',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            delete answer.headers['www-authenticate']
        },
        finds: ['challenge.present: fail', /no WWW-Authenticate/, /RFC 6750/],
      },
      {
        what: 'a 401 with only another scheme',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Basic realm="mcp"'
        },
        finds: ['challenge.present: fail', /Basic/, /scheme Bearer/],
      },
      {
        what: 'a comma after the scheme',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Bearer, error="invalid_token"'
        },
        finds: ['challenge.syntax: fail', /has no scheme/, /RFC 9110 §11\.6\.1/],
      },
      {
        what: 'another scheme before Bearer',
        alter: challenge((value) => `DPoP algs="ES256", ${value}`),
        finds: ['challenge.order: warn', /before Bearer/, /first/],
      },
      {
        what: 'a string that looks like resource_metadata, before the parameter',
        alter: challenge((value) => value.replace('realm="', 'realm="resource_metadata=x ')),
        finds: ['challenge.order: fail', /not the parameter/, /before parameters/],
      },
      {
        what: 'a challenge without resource_metadata',
        alter: challenge((value) => value.replace(/, resource_metadata="[^"]*"/, '')),
        finds: ['challenge.resource-metadata: warn', /well-known/, /RFC 9728 §5\.1/],
      },
      {
        what: 'a resource_metadata URL on another host, as behind a proxy',
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://localhost')),
        finds: ['challenge.resource-metadata: warn', /another host/, /public URL/],
      },
      {
        what: 'a resource_metadata URL that is not https',
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://mcp.internal')),
        finds: ['challenge.resource-metadata: fail', /not https/, /public URL/],
        // That URL does not exist.
        asked: { ignore: ['metadata.found'] },
      },
      {
        what: 'a relative resource_metadata URL',
        alter: challenge((value) =>
          value.replace(/resource_metadata="[^"]*"/, 'resource_metadata="/metadata"'),
        ),
        finds: ['challenge.resource-metadata: fail', /not an absolute URL/, /public URL/],
      },
      {
        what: 'a challenge with two spaces between scopes',
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read  mcp:write"')),
        finds: ['challenge.scope: fail', /mcp:read mcp:write/, /one space/],
      },
      {
        what: 'a challenge with the scope offline_access',
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read offline_access"')),
        finds: ['challenge.scope: warn', /offline_access/, /remove offline_access/],
      },
    ]))

  describe('in the metadata document,', () =>
    itReports([
      {
        what: 'a server without a metadata document',
        instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 404 } : undefined),
        finds: ['metadata.found: fail', /not found/, /protectedResourceRouter/],
      },
      {
        what: 'a metadata document that is not at the URL of the challenge',
        instead: ({ path }) =>
          path === '/.well-known/oauth-protected-resource/mcp' ? { status: 404 } : undefined,
        finds: ['metadata.found: fail', /only the URL of the challenge/, /correct the URL/],
      },
      {
        what: 'a metadata document that requires a token',
        instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 401 } : undefined),
        finds: ['metadata.found: fail', /401/, /without requiring a token/],
        asked: { ignore: ['wellknown.format'] },
      },
      {
        what: 'a metadata document that is sent as plain text',
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) answer.headers['content-type'] = 'text/plain'
        },
        finds: ['metadata.found: warn', /text\/plain/, /application\/json/],
      },
      {
        what: 'a resource with an additional trailing slash',
        alter: metadata((document) => {
          document.resource += '/'
        }),
        finds: ['metadata.resource: fail', /\/mcp\/,/, /trailing slash/],
      },
      {
        what: 'a resource on another host',
        alter: metadata({ resource: 'https://mcp.internal/mcp' }),
        finds: ['metadata.resource: fail', /mcp\.internal/, /exactly/],
      },
      {
        what: 'metadata without resource',
        alter: metadata({ resource: undefined }),
        finds: ['metadata.resource: fail', /missing/, /exactly/],
      },
      {
        what: 'a resource that is only the origin',
        alter: metadata((document) => {
          document.resource = new URL(document.resource).origin
        }),
        finds: ['metadata.resource: warn', /RFC 9728 §3\.3/, /exactly/],
      },
      {
        what: 'metadata without an authorization server',
        alter: metadata({ authorization_servers: [] }),
        finds: ['metadata.authorization-servers: fail', /not an array/, /RFC 9728 §2/],
      },
      {
        what: 'an authorization server that is not https',
        alter: metadata({ authorization_servers: ['http://auth.example.com'] }),
        finds: ['metadata.authorization-servers: fail', /auth\.example\.com/, /https URLs/],
        // The token has the issuer of the real authorization server.
        asked: { ignore: ['token.claims'] },
      },
      {
        what: 'metadata with an empty list of scopes',
        alter: metadata({ scopes_supported: [] }),
        finds: ['metadata.members: fail', /empty/, /remove the member/],
      },
      {
        what: 'metadata with the scope offline_access',
        alter: metadata((document) => {
          document.scopes_supported.push('offline_access')
        }),
        finds: ['metadata.members: warn', /offline_access/, /remove it/],
      },
      {
        what: 'metadata that allows tokens only in the query',
        alter: metadata({ bearer_methods_supported: ['query'] }),
        finds: ['metadata.members: fail', /header/, /only in the Authorization header/],
      },
    ]))

  describe('at the authorization server,', () =>
    itReports([
      {
        what: 'an authorization server without metadata',
        issuerAnswer: () => ({ status: 404 }),
        finds: ['issuer.metadata: fail', /no metadata/, /RFC 8414/],
      },
      {
        what: 'metadata with another issuer',
        issuer: members({ issuer: 'https://auth.example.com' }),
        finds: [
          'issuer.identity: fail',
          /the authorization server https:\/\/auth\.example\.com/,
          /RFC 8414 §3\.3/,
        ],
      },
      {
        what: 'an issuer with an additional slash',
        issuer: (document) => {
          document.issuer += '/'
        },
        finds: [
          'issuer.identity: fail',
          /the authorization server http:\S+\/: one slash more$/,
          /RFC 8414 §3\.3/,
        ],
      },
      {
        what: 'an issuer whose metadata has one slash less',
        alter: metadata((document) => {
          document.authorization_servers = document.authorization_servers.map(
            (issuer: string) => `${issuer}/`,
          )
        }),
        finds: [
          'issuer.identity: warn',
          /the authorization server http:\S+\d: one slash less$/,
          /official clients accept only one slash less/,
        ],
      },
      {
        what: 'an authorization server without a token endpoint',
        issuer: members({ token_endpoint: undefined }),
        finds: ['issuer.endpoints: fail', /no token_endpoint/, /authorization code flow/],
      },
      {
        what: 'an authorization endpoint that is not https',
        issuer: members({ authorization_endpoint: 'http://auth.example.com/authorize' }),
        finds: ['issuer.endpoints: fail', /not https/, /https endpoints/],
      },
      {
        what: 'an authorization server without the response type code',
        issuer: members({ response_types_supported: ['token'] }),
        finds: ['issuer.endpoints: fail', /token/, /authorization code flow/],
      },
      {
        what: 'an authorization server that does not mention PKCE',
        issuer: members({ code_challenge_methods_supported: undefined }),
        finds: ['issuer.pkce: fail', /has no code_challenge/, /S256/],
      },
      {
        what: 'an authorization server that supports only plain PKCE',
        issuer: members({ code_challenge_methods_supported: ['plain'] }),
        finds: ['issuer.pkce: fail', /is plain$/, /S256/],
      },
      {
        what: 'an authorization server without client registration',
        issuer: members({ registration_endpoint: undefined }),
        finds: ['issuer.registration: warn', /neither/, /manually/],
      },
      {
        what: 'an authorization server without CORS headers',
        issuerAnswer: (path) =>
          path === '/.well-known/oauth-authorization-server' ? { status: 200, headers: {} } : undefined,
        finds: [
          'issuer.cors: warn',
          /^the metadata of http:\/\/\S+ is sent without Access-Control-Allow-Origin$/,
          /token endpoints/,
        ],
      },
      {
        what: 'a registration endpoint without a preflight',
        issuerAnswer: (path) => (path === '/register' ? { status: 404, headers: {} } : undefined),
        finds: [
          'issuer.cors: warn',
          /^registration_endpoint of http:\/\/\S+: the preflight gets 404\b.* without Access-Control-Allow-Origin$/,
          /other clients do not need it/,
        ],
      },
      {
        what: 'a token endpoint without CORS headers',
        issuerAnswer: (path) => (path === '/token' ? { status: 400, headers: {} } : undefined),
        finds: [
          'issuer.cors: warn',
          /^token_endpoint of http:\/\/\S+: the preflight gets 400\b.* without Access-Control-Allow-Origin$/,
          /other clients do not need it/,
        ],
      },
    ]))

  describe('in the verifier,', () =>
    itReports([
      {
        what: 'a verifier that accepts every token',
        oauth: {
          verifyToken: ({ bearerToken }) => ({
            valid: bearerToken !== undefined,
            scopes: 'mcp:read mcp:write',
          }),
        },
        finds: ['token.wrong: fail', /accepted/, /jwtVerifier or introspectionVerifier/],
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a verifier that fails for invalid tokens',
        alter: (answer, { headers }) => {
          if (headers.authorization?.startsWith('Bearer doctor-') === true) answer.status = 500
        },
        finds: ['token.wrong: fail', /500/, /respond with 401/],
      },
      {
        what: 'a 401 for an invalid token without an error code',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization?.startsWith('Bearer doctor-') === true)
            answer.headers['www-authenticate'] = 'Bearer'
        },
        finds: ['token.wrong: warn', /no error/, /invalid_token/],
      },
      {
        what: 'an error with status 200 for an invalid token',
        instead: ({ headers }) =>
          headers.authorization?.startsWith('Bearer doctor-') === true
            ? json({ error: { code: -32_001, message: 'Unauthorized' } })
            : undefined,
        finds: ['token.wrong: fail', /an error in a response with status 200/, /respond with 401/],
      },
      {
        what: 'a verifier that ignores the signature',
        instead: (request) =>
          isForged(request) && claimsOf(request).exp > Date.now() / 1000 ? { status: 200 } : undefined,
        finds: ['token.forged: fail', /accepted/, /verify the signature/],
      },
      {
        what: 'a verifier that accepts the algorithm none',
        instead: (request) => (algorithmOf(request) === 'none' ? { status: 200 } : undefined),
        finds: ['token.unsigned: fail', /accepted/, /asymmetric/],
      },
      {
        what: 'a 403 for an expired token',
        instead: (request) =>
          isForged(request) && claimsOf(request).exp < Date.now() / 1000 ? { status: 403 } : undefined,
        finds: ['token.expired: fail', /403/, /respond with 401/],
      },
      {
        what: 'a verifier that expects another audience',
        oauth: { verifyToken: () => undefined },
        finds: [
          'token.accepted: fail',
          /401, invalid_token: "The access token is invalid"/,
          /algorithms of the verifier/,
        ],
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a server that requires more scopes than the token has',
        oauth: { scopes: ['mcp:admin'] },
        finds: [
          'token.accepted: fail',
          /403, insufficient_scope: "The access token does not have the required scope"/,
          /mcp:admin/,
        ],
        // The scope is missing in the token, too.
        asked: { underScopedToken: undefined, ignore: ['token.claims'] },
      },
      {
        what: 'a case-sensitive comparison of the scheme',
        instead: ({ headers }) =>
          headers.authorization?.startsWith('bearer ') === true ? { status: 401 } : undefined,
        finds: ['token.scheme-case: warn', /lowercase/, /RFC 9110 §11\.1/],
      },
      {
        what: 'a 403 for missing scopes without an error code',
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer realm="mcp"'
        },
        finds: ['token.under-scoped: fail', /without error/, /insufficient_scope/],
      },
      {
        what: 'a challenge for missing scopes that names no scope',
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer error="insufficient_scope"'
        },
        finds: ['token.under-scoped: warn', /without scope and resource_metadata/, /scope="…"/],
      },
      {
        what: 'an error with status 200 for missing scopes',
        alter: (answer) => {
          if (answer.status !== 403 || answer.headers['www-authenticate'] === undefined) return
          answer.status = 200
          delete answer.headers['www-authenticate']
          answer.body = '{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}'
        },
        finds: ['token.under-scoped: fail', /an error in a response with status 200/, /respond with 403/],
      },
      {
        what: 'a server that does not check scopes',
        finds: ['token.under-scoped: fail', /accepted/, /check the scopes/],
        asked: { call: 'greet' },
      },
    ]))
})
