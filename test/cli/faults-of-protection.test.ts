import type { Incoming } from '../support/cli/doctor-target.ts'
import { challenge, json, members, metadata, on } from '../support/cli/faults.ts'
import { itReports } from '../support/cli/recorded.ts'

const isPost = ({ method, path }: Incoming): boolean => method === 'POST' && path === '/mcp'

const emptyResponse = (status: number) =>
  on((request: Incoming) => isPost(request), { status, headers: { 'content-type': 'text/html' } })

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
    itReports('protection', {
      'a URL with another path': emptyResponse(404),
      'an endpoint that supports only GET': emptyResponse(405),
      'a server that is down behind a proxy': emptyResponse(502),
      'a rate limit that has been reached': on((request) => isPost(request), {
        status: 429,
        headers: { 'retry-after': '7' },
      }),
    }))

  describe('in the gate,', () =>
    itReports('protection', {
      'a server without a gate': { open: true, asked: { underScopedToken: undefined, call: 'greet' } },
      'a gate that responds with 403 without a token': {
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined) answer.status = 403
        },
      },
      'a gate that responds with an error and status 200': on(
        ({ method, path, headers }) =>
          method === 'POST' && path === '/mcp' && headers.authorization === undefined,
        json({ error: { code: -32_001, message: 'Unauthorized' } }),
      ),
      'a gate that allows the handshake without a token': {
        ...on(
          ({ message, headers }) => message?.method === 'initialize' && headers.authorization === undefined,
          {
            headers: {
              'content-type': 'application/json',
              'access-control-allow-origin': '*',
            },
            body: '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}',
          },
        ),
        // Web pages of unknown origins get the handshake, too.
        asked: { ignore: ['origin.foreign', 'host.foreign'] },
      },
      'a gate that checks only POST': on(({ method, path }) => method === 'GET' && path === '/mcp', {
        headers: { 'content-type': 'text/event-stream' },
        body: ': open\n\n',
      }),
    }))

  describe('in the challenge,', () =>
    itReports('protection', {
      'a 401 without a challenge': {
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            delete answer.headers['www-authenticate']
        },
      },
      'a 401 with only another scheme': {
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Basic realm="mcp"'
        },
      },
      'a comma after the scheme': {
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Bearer, error="invalid_token"'
        },
      },
      'another scheme before Bearer': { alter: challenge((value) => `DPoP algs="ES256", ${value}`) },
      'a string that looks like resource_metadata, before the parameter': {
        alter: challenge((value) => value.replace('realm="', 'realm="resource_metadata=x ')),
      },
      'a challenge without resource_metadata': {
        alter: challenge((value) => value.replace(/, resource_metadata="[^"]*"/, '')),
      },
      'a resource_metadata URL on another host, as behind a proxy': {
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://localhost')),
      },
      'a resource_metadata URL that is not https': {
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://mcp.internal')),
        // That URL does not exist.
        asked: { ignore: ['metadata.found'] },
      },
      'a relative resource_metadata URL': {
        alter: challenge((value) =>
          value.replace(/resource_metadata="[^"]*"/, 'resource_metadata="/metadata"'),
        ),
      },
      'a challenge with two spaces between scopes': {
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read  mcp:write"')),
      },
      'a challenge with the scope offline_access': {
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read offline_access"')),
      },
    }))

  describe('in the metadata document,', () =>
    itReports('protection', {
      'a server without a metadata document': on(({ path }) => path.startsWith('/.well-known/'), {
        status: 404,
      }),
      'a metadata document that is not at the URL of the challenge': on(
        ({ path }) => path === '/.well-known/oauth-protected-resource/mcp',
        { status: 404 },
      ),
      'a metadata document that requires a token': {
        ...on(({ path }) => path.startsWith('/.well-known/'), { status: 401 }),
        asked: { ignore: ['wellknown.format'] },
      },
      'a metadata document that is sent as plain text': {
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) answer.headers['content-type'] = 'text/plain'
        },
      },
      'a resource with an additional trailing slash': {
        alter: metadata((document) => {
          document.resource += '/'
        }),
      },
      'a resource on another host': { alter: metadata({ resource: 'https://mcp.internal/mcp' }) },
      'metadata without resource': { alter: metadata({ resource: undefined }) },
      'a resource that is only the origin': {
        alter: metadata((document) => {
          document.resource = new URL(document.resource).origin
        }),
      },
      'metadata without an authorization server': { alter: metadata({ authorization_servers: [] }) },
      'an authorization server that is not https': {
        alter: metadata({ authorization_servers: ['http://auth.example.com'] }),
        // The token has the issuer of the real authorization server.
        asked: { ignore: ['token.claims'] },
      },
      'metadata with an empty list of scopes': { alter: metadata({ scopes_supported: [] }) },
      'metadata with the scope offline_access': {
        alter: metadata((document) => {
          document.scopes_supported.push('offline_access')
        }),
      },
      'metadata that allows tokens only in the query': {
        alter: metadata({ bearer_methods_supported: ['query'] }),
      },
    }))

  describe('at the authorization server,', () =>
    itReports('protection', {
      'an authorization server without metadata': { issuerAnswer: () => ({ status: 404 }) },
      'metadata with another issuer': { issuer: members({ issuer: 'https://auth.example.com' }) },
      'an issuer with an additional slash': {
        issuer: (document) => {
          document.issuer += '/'
        },
      },
      'an issuer whose metadata has one slash less': {
        alter: metadata((document) => {
          document.authorization_servers = document.authorization_servers.map(
            (issuer: string) => `${issuer}/`,
          )
        }),
      },
      'an authorization server without a token endpoint': { issuer: members({ token_endpoint: undefined }) },
      'an authorization endpoint that is not https': {
        issuer: members({ authorization_endpoint: 'http://auth.example.com/authorize' }),
      },
      'an authorization server without the response type code': {
        issuer: members({ response_types_supported: ['token'] }),
      },
      'an authorization server that does not mention PKCE': {
        issuer: members({ code_challenge_methods_supported: undefined }),
      },
      'an authorization server that supports only plain PKCE': {
        issuer: members({ code_challenge_methods_supported: ['plain'] }),
      },
      'an authorization server without client registration': {
        issuer: members({ registration_endpoint: undefined }),
      },
      'an authorization server without CORS headers': {
        issuerAnswer: (path) =>
          path === '/.well-known/oauth-authorization-server' ? { status: 200, headers: {} } : undefined,
      },
      'a registration endpoint without a preflight': {
        issuerAnswer: (path) => (path === '/register' ? { status: 404, headers: {} } : undefined),
      },
      'a token endpoint without CORS headers': {
        issuerAnswer: (path) => (path === '/token' ? { status: 400, headers: {} } : undefined),
      },
    }))

  describe('in the verifier,', () =>
    itReports('protection', {
      'a verifier that accepts every token': {
        oauth: {
          verifyToken: ({ bearerToken }) => ({
            valid: bearerToken !== undefined,
            scopes: 'mcp:read mcp:write',
          }),
        },
        asked: { underScopedToken: undefined },
      },
      'a verifier that fails for invalid tokens': {
        alter: (answer, { headers }) => {
          if (headers.authorization?.startsWith('Bearer doctor-') === true) answer.status = 500
        },
      },
      'a 401 for an invalid token without an error code': {
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization?.startsWith('Bearer doctor-') === true)
            answer.headers['www-authenticate'] = 'Bearer'
        },
      },
      'an error with status 200 for an invalid token': on(
        ({ headers }) => headers.authorization?.startsWith('Bearer doctor-') === true,
        json({ error: { code: -32_001, message: 'Unauthorized' } }),
      ),
      'a verifier that ignores the signature': on(
        (request) => isForged(request) && claimsOf(request).exp > Date.now() / 1000,
        { status: 200 },
      ),
      'a verifier that accepts the algorithm none': on((request) => algorithmOf(request) === 'none', {
        status: 200,
      }),
      'a 403 for an expired token': on(
        (request) => isForged(request) && claimsOf(request).exp < Date.now() / 1000,
        { status: 403 },
      ),
      'a verifier that expects another audience': {
        oauth: { verifyToken: () => undefined },
        asked: { underScopedToken: undefined },
      },
      'a server that requires more scopes than the token has': {
        oauth: { scopes: ['mcp:admin'] },
        // The scope is missing in the token, too.
        asked: { underScopedToken: undefined, ignore: ['token.claims'] },
      },
      'a case-sensitive comparison of the scheme': on(
        ({ headers }) => headers.authorization?.startsWith('bearer ') === true,
        { status: 401 },
      ),
      'a 403 for missing scopes without an error code': {
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer realm="mcp"'
        },
      },
      'a challenge for missing scopes that names no scope': {
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer error="insufficient_scope"'
        },
      },
      'an error with status 200 for missing scopes': {
        alter: (answer) => {
          if (answer.status !== 403 || answer.headers['www-authenticate'] === undefined) return
          answer.status = 200
          delete answer.headers['www-authenticate']
          answer.body = '{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}'
        },
      },
      'a server that does not check scopes': { asked: { call: 'greet' } },
    }))
})
