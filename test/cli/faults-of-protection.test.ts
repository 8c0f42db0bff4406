import type { Incoming } from '../support/cli/doctor-target.ts'
import { challenge, itReports, json, metadata } from '../support/cli/faults.ts'

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
        problem: 'server.endpoint: fail',
        seen: /404/,
        hint: /with its path/,
      },
      {
        what: 'an endpoint that supports only GET',
        ...emptyResponse(405),
        problem: 'server.endpoint: fail',
        seen: /405/,
        hint: /accept POST/,
      },
      {
        what: 'a server that is down behind a proxy',
        ...emptyResponse(502),
        problem: 'server.endpoint: fail',
        seen: /502/,
        hint: /logs of the server/,
      },
      {
        what: 'a rate limit that has been reached',
        instead: (request) =>
          isPost(request) ? { status: 429, headers: { 'retry-after': '7' } } : undefined,
        problem: 'server.endpoint: fail',
        seen: /429/,
        hint: /wait/,
      },
    ]))

  describe('in the gate,', () =>
    itReports([
      {
        what: 'a server without a gate',
        open: true,
        problem: 'auth.required: fail',
        seen: /work without a token/,
        hint: /mcpAuth before the handler/,
        asked: { underScopedToken: undefined, call: 'greet' },
      },
      {
        what: 'a gate that responds with 403 without a token',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined) answer.status = 403
        },
        problem: 'auth.required: fail',
        seen: /403/,
        hint: /respond with 401/,
      },
      {
        what: 'a gate that responds with an error and status 200',
        instead: ({ method, path, headers }) =>
          method === 'POST' && path === '/mcp' && headers.authorization === undefined
            ? json({ error: { code: -32_001, message: 'Unauthorized' } })
            : undefined,
        problem: 'auth.required: fail',
        seen: /^200, JSON-RPC error -32001: "Unauthorized" for a request without a token$/,
        hint: /respond with 401/,
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
        problem: 'auth.required: warn',
        seen: /tools\/list does not/,
        hint: /first request/,
        // Web pages of unknown origins get the handshake, too.
        asked: { ignore: ['origin.foreign', 'host.foreign'] },
      },
      {
        what: 'a gate that checks only POST',
        instead: ({ method, path }) =>
          method === 'GET' && path === '/mcp'
            ? { headers: { 'content-type': 'text/event-stream' }, body: ': open\n\n' }
            : undefined,
        problem: 'auth.methods: fail',
        seen: /GET: 200/,
        hint: /every method/,
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
        problem: 'challenge.present: fail',
        seen: /no WWW-Authenticate/,
        hint: /RFC 6750/,
      },
      {
        what: 'a 401 with only another scheme',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Basic realm="mcp"'
        },
        problem: 'challenge.present: fail',
        seen: /Basic/,
        hint: /scheme Bearer/,
      },
      {
        what: 'a comma after the scheme',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Bearer, error="invalid_token"'
        },
        problem: 'challenge.syntax: fail',
        seen: /has no scheme/,
        hint: /RFC 9110 §11\.6\.1/,
      },
      {
        what: 'another scheme before Bearer',
        alter: challenge((value) => `DPoP algs="ES256", ${value}`),
        problem: 'challenge.order: warn',
        seen: /before Bearer/,
        hint: /first/,
      },
      {
        what: 'a string that looks like resource_metadata, before the parameter',
        alter: challenge((value) => value.replace('realm="', 'realm="resource_metadata=x ')),
        problem: 'challenge.order: fail',
        seen: /not the parameter/,
        hint: /before parameters/,
      },
      {
        what: 'a challenge without resource_metadata',
        alter: challenge((value) => value.replace(/, resource_metadata="[^"]*"/, '')),
        problem: 'challenge.resource-metadata: warn',
        seen: /well-known/,
        hint: /RFC 9728 §5\.1/,
      },
      {
        what: 'a resource_metadata URL on another host, as behind a proxy',
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://localhost')),
        problem: 'challenge.resource-metadata: warn',
        seen: /another host/,
        hint: /public URL/,
      },
      {
        what: 'a resource_metadata URL that is not https',
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://mcp.internal')),
        problem: 'challenge.resource-metadata: fail',
        seen: /not https/,
        hint: /public URL/,
        // That URL does not exist.
        asked: { ignore: ['metadata.found'] },
      },
      {
        what: 'a relative resource_metadata URL',
        alter: challenge((value) =>
          value.replace(/resource_metadata="[^"]*"/, 'resource_metadata="/metadata"'),
        ),
        problem: 'challenge.resource-metadata: fail',
        seen: /not an absolute URL/,
        hint: /public URL/,
      },
      {
        what: 'a challenge with two spaces between scopes',
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read  mcp:write"')),
        problem: 'challenge.scope: fail',
        seen: /mcp:read mcp:write/,
        hint: /one space/,
      },
      {
        what: 'a challenge with the scope offline_access',
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read offline_access"')),
        problem: 'challenge.scope: warn',
        seen: /offline_access/,
        hint: /remove offline_access/,
      },
    ]))

  describe('in the metadata document,', () =>
    itReports([
      {
        what: 'a server without a metadata document',
        instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 404 } : undefined),
        problem: 'metadata.found: fail',
        seen: /not found/,
        hint: /protectedResourceRouter/,
      },
      {
        what: 'a metadata document that is not at the URL of the challenge',
        instead: ({ path }) =>
          path === '/.well-known/oauth-protected-resource/mcp' ? { status: 404 } : undefined,
        problem: 'metadata.found: fail',
        seen: /only the URL of the challenge/,
        hint: /correct the URL/,
      },
      {
        what: 'a metadata document that requires a token',
        instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 401 } : undefined),
        problem: 'metadata.found: fail',
        seen: /401/,
        hint: /without requiring a token/,
        asked: { ignore: ['wellknown.format'] },
      },
      {
        what: 'a metadata document that is sent as plain text',
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) answer.headers['content-type'] = 'text/plain'
        },
        problem: 'metadata.found: warn',
        seen: /text\/plain/,
        hint: /application\/json/,
      },
      {
        what: 'a resource with an additional trailing slash',
        alter: metadata((document) => {
          document.resource += '/'
        }),
        problem: 'metadata.resource: fail',
        seen: /\/mcp\/,/,
        hint: /trailing slash/,
      },
      {
        what: 'a resource on another host',
        alter: metadata((document) => {
          document.resource = 'https://mcp.internal/mcp'
        }),
        problem: 'metadata.resource: fail',
        seen: /mcp\.internal/,
        hint: /exactly/,
      },
      {
        what: 'metadata without resource',
        alter: metadata((document) => {
          delete document.resource
        }),
        problem: 'metadata.resource: fail',
        seen: /missing/,
        hint: /exactly/,
      },
      {
        what: 'a resource that is only the origin',
        alter: metadata((document) => {
          document.resource = new URL(document.resource).origin
        }),
        problem: 'metadata.resource: warn',
        seen: /RFC 9728 §3\.3/,
        hint: /exactly/,
      },
      {
        what: 'metadata without an authorization server',
        alter: metadata((document) => {
          document.authorization_servers = []
        }),
        problem: 'metadata.authorization-servers: fail',
        seen: /not an array/,
        hint: /RFC 9728 §2/,
      },
      {
        what: 'an authorization server that is not https',
        alter: metadata((document) => {
          document.authorization_servers = ['http://auth.example.com']
        }),
        problem: 'metadata.authorization-servers: fail',
        seen: /auth\.example\.com/,
        hint: /https URLs/,
        // The token has the issuer of the real authorization server.
        asked: { ignore: ['token.claims'] },
      },
      {
        what: 'metadata with an empty list of scopes',
        alter: metadata((document) => {
          document.scopes_supported = []
        }),
        problem: 'metadata.members: fail',
        seen: /empty/,
        hint: /remove the member/,
      },
      {
        what: 'metadata with the scope offline_access',
        alter: metadata((document) => {
          document.scopes_supported.push('offline_access')
        }),
        problem: 'metadata.members: warn',
        seen: /offline_access/,
        hint: /remove it/,
      },
      {
        what: 'metadata that allows tokens only in the query',
        alter: metadata((document) => {
          document.bearer_methods_supported = ['query']
        }),
        problem: 'metadata.members: fail',
        seen: /header/,
        hint: /only in the Authorization header/,
      },
    ]))

  describe('at the authorization server,', () =>
    itReports([
      {
        what: 'an authorization server without metadata',
        issuerAnswer: () => ({ status: 404 }),
        problem: 'issuer.metadata: fail',
        seen: /no metadata/,
        hint: /RFC 8414/,
      },
      {
        what: 'metadata with another issuer',
        issuer: (document) => {
          document.issuer = 'https://auth.example.com'
        },
        problem: 'issuer.identity: fail',
        seen: /the authorization server https:\/\/auth\.example\.com/,
        hint: /RFC 8414 §3\.3/,
      },
      {
        what: 'an issuer with an additional slash',
        issuer: (document) => {
          document.issuer += '/'
        },
        problem: 'issuer.identity: fail',
        seen: /the authorization server http:\S+\/: one slash more$/,
        hint: /RFC 8414 §3\.3/,
      },
      {
        what: 'an issuer whose metadata has one slash less',
        alter: metadata((document) => {
          document.authorization_servers = document.authorization_servers.map(
            (issuer: string) => `${issuer}/`,
          )
        }),
        problem: 'issuer.identity: warn',
        seen: /the authorization server http:\S+\d: one slash less$/,
        hint: /official clients accept only one slash less/,
      },
      {
        what: 'an authorization server without a token endpoint',
        issuer: (document) => {
          delete document.token_endpoint
        },
        problem: 'issuer.endpoints: fail',
        seen: /no token_endpoint/,
        hint: /authorization code flow/,
      },
      {
        what: 'an authorization endpoint that is not https',
        issuer: (document) => {
          document.authorization_endpoint = 'http://auth.example.com/authorize'
        },
        problem: 'issuer.endpoints: fail',
        seen: /not https/,
        hint: /https endpoints/,
      },
      {
        what: 'an authorization server without the response type code',
        issuer: (document) => {
          document.response_types_supported = ['token']
        },
        problem: 'issuer.endpoints: fail',
        seen: /token/,
        hint: /authorization code flow/,
      },
      {
        what: 'an authorization server that does not mention PKCE',
        issuer: (document) => {
          delete document.code_challenge_methods_supported
        },
        problem: 'issuer.pkce: fail',
        seen: /has no code_challenge/,
        hint: /S256/,
      },
      {
        what: 'an authorization server that supports only plain PKCE',
        issuer: (document) => {
          document.code_challenge_methods_supported = ['plain']
        },
        problem: 'issuer.pkce: fail',
        seen: /is plain$/,
        hint: /S256/,
      },
      {
        what: 'an authorization server without client registration',
        issuer: (document) => {
          delete document.registration_endpoint
        },
        problem: 'issuer.registration: warn',
        seen: /neither/,
        hint: /manually/,
      },
      {
        what: 'an authorization server without CORS headers',
        issuerAnswer: (path) =>
          path === '/.well-known/oauth-authorization-server' ? { status: 200, headers: {} } : undefined,
        problem: 'issuer.cors: warn',
        seen: /^the metadata of http:\/\/\S+ is sent without Access-Control-Allow-Origin$/,
        hint: /token endpoints/,
      },
      {
        what: 'a registration endpoint without a preflight',
        issuerAnswer: (path) => (path === '/register' ? { status: 404, headers: {} } : undefined),
        problem: 'issuer.cors: warn',
        seen: /^registration_endpoint of http:\/\/\S+: the preflight gets 404\b.* without Access-Control-Allow-Origin$/,
        hint: /other clients do not need it/,
      },
      {
        what: 'a token endpoint without CORS headers',
        issuerAnswer: (path) => (path === '/token' ? { status: 400, headers: {} } : undefined),
        problem: 'issuer.cors: warn',
        seen: /^token_endpoint of http:\/\/\S+: the preflight gets 400\b.* without Access-Control-Allow-Origin$/,
        hint: /other clients do not need it/,
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
        problem: 'token.wrong: fail',
        seen: /accepted/,
        hint: /jwtVerifier or introspectionVerifier/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a verifier that fails for invalid tokens',
        alter: (answer, { headers }) => {
          if (headers.authorization?.startsWith('Bearer doctor-') === true) answer.status = 500
        },
        problem: 'token.wrong: fail',
        seen: /500/,
        hint: /respond with 401/,
      },
      {
        what: 'a 401 for an invalid token without an error code',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization?.startsWith('Bearer doctor-') === true)
            answer.headers['www-authenticate'] = 'Bearer'
        },
        problem: 'token.wrong: warn',
        seen: /no error/,
        hint: /invalid_token/,
      },
      {
        what: 'an error with status 200 for an invalid token',
        instead: ({ headers }) =>
          headers.authorization?.startsWith('Bearer doctor-') === true
            ? json({ error: { code: -32_001, message: 'Unauthorized' } })
            : undefined,
        problem: 'token.wrong: fail',
        seen: /an error in a response with status 200/,
        hint: /respond with 401/,
      },
      {
        what: 'a verifier that ignores the signature',
        instead: (request) =>
          isForged(request) && claimsOf(request).exp > Date.now() / 1000 ? { status: 200 } : undefined,
        problem: 'token.forged: fail',
        seen: /accepted/,
        hint: /verify the signature/,
      },
      {
        what: 'a verifier that accepts the algorithm none',
        instead: (request) => (algorithmOf(request) === 'none' ? { status: 200 } : undefined),
        problem: 'token.unsigned: fail',
        seen: /accepted/,
        hint: /asymmetric/,
      },
      {
        what: 'a 403 for an expired token',
        instead: (request) =>
          isForged(request) && claimsOf(request).exp < Date.now() / 1000 ? { status: 403 } : undefined,
        problem: 'token.expired: fail',
        seen: /403/,
        hint: /respond with 401/,
      },
      {
        what: 'a verifier that expects another audience',
        oauth: { verifyToken: () => undefined },
        problem: 'token.accepted: fail',
        seen: /401, invalid_token: "The access token is invalid"/,
        hint: /algorithms of the verifier/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a server that requires more scopes than the token has',
        oauth: { scopes: ['mcp:admin'] },
        problem: 'token.accepted: fail',
        seen: /403, insufficient_scope: "The access token does not have the required scope"/,
        hint: /mcp:admin/,
        // The scope is missing in the token, too.
        asked: { underScopedToken: undefined, ignore: ['token.claims'] },
      },
      {
        what: 'a case-sensitive comparison of the scheme',
        instead: ({ headers }) =>
          headers.authorization?.startsWith('bearer ') === true ? { status: 401 } : undefined,
        problem: 'token.scheme-case: warn',
        seen: /lowercase/,
        hint: /RFC 9110 §11\.1/,
      },
      {
        what: 'a 403 for missing scopes without an error code',
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer realm="mcp"'
        },
        problem: 'token.under-scoped: fail',
        seen: /without error/,
        hint: /insufficient_scope/,
      },
      {
        what: 'a challenge for missing scopes that names no scope',
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer error="insufficient_scope"'
        },
        problem: 'token.under-scoped: warn',
        seen: /without scope and resource_metadata/,
        hint: /scope="…"/,
      },
      {
        what: 'an error with status 200 for missing scopes',
        alter: (answer) => {
          if (answer.status !== 403 || answer.headers['www-authenticate'] === undefined) return
          answer.status = 200
          delete answer.headers['www-authenticate']
          answer.body = '{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}'
        },
        problem: 'token.under-scoped: fail',
        seen: /an error in a response with status 200/,
        hint: /respond with 403/,
      },
      {
        what: 'a server that does not check scopes',
        problem: 'token.under-scoped: fail',
        seen: /accepted/,
        hint: /check the scopes/,
        asked: { call: 'greet' },
      },
    ]))
})
