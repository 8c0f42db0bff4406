import { challenge, itTells, json, metadata } from '../support/cli/faults.ts'
import type { Incoming } from '../support/cli/patient.ts'

const isPost = ({ method, path }: Incoming): boolean => method === 'POST' && path === '/mcp'

const nothingSaid = (status: number) => ({
  instead: (request: Incoming) =>
    isPost(request) ? { status, headers: { 'content-type': 'text/html' } } : undefined,
})

/** The claims of a JWT that is sent. */
function claimsOf({ headers }: Incoming): any {
  const [, payload] = /^Bearer [\w-]+\.([\w-]+)\./.exec(headers.authorization ?? '') ?? []
  return payload === undefined ? undefined : JSON.parse(Buffer.from(payload, 'base64url').toString())
}

const algorithmOf = ({ headers }: Incoming): unknown => {
  const [, encoded] = /^Bearer ([\w-]+)\./.exec(headers.authorization ?? '') ?? []
  return encoded === undefined ? undefined : JSON.parse(Buffer.from(encoded, 'base64url').toString()).alg
}

const isForged = (request: Incoming): boolean => claimsOf(request)?.sub === 'mcp-gatekit-doctor'

describe('faults that the doctor finds in the protection of a server', () => {
  describe('the endpoint', () =>
    itTells([
      {
        what: 'another path',
        ...nothingSaid(404),
        complaint: 'server.endpoint: fail',
        seen: /404/,
        hint: /with its path/,
      },
      {
        what: 'GET only',
        ...nothingSaid(405),
        complaint: 'server.endpoint: fail',
        seen: /405/,
        hint: /take POST/,
      },
      {
        what: 'a server that is down behind its proxy',
        ...nothingSaid(502),
        complaint: 'server.endpoint: fail',
        seen: /502/,
        hint: /log of the server/,
      },
      {
        what: 'too many requests already',
        instead: (request) =>
          isPost(request) ? { status: 429, headers: { 'retry-after': '7' } } : undefined,
        complaint: 'server.endpoint: fail',
        seen: /429/,
        hint: /wait/,
      },
    ]))

  describe('the gate', () =>
    itTells([
      {
        what: 'it is not there',
        open: true,
        complaint: 'auth.required: fail',
        seen: /answered without a token/,
        hint: /mcpAuth before the handler/,
        asked: { underScopedToken: undefined, call: 'greet' },
      },
      {
        what: 'it says 403 to who has no token',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined) answer.status = 403
        },
        complaint: 'auth.required: fail',
        seen: /403/,
        hint: /answer 401/,
      },
      {
        what: 'it refuses within a 200',
        instead: ({ method, path, headers }) =>
          method === 'POST' && path === '/mcp' && headers.authorization === undefined
            ? json({ error: { code: -32_001, message: 'Unauthorized' } })
            : undefined,
        complaint: 'auth.required: fail',
        seen: /JSON-RPC error \(200\)/,
        hint: /answer 401/,
      },
      {
        what: 'it lets the handshake pass',
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
        complaint: 'auth.required: warn',
        seen: /tools\/list is not/,
        hint: /first request/,
        // A stranger's page gets the handshake too, here.
        asked: { ignore: ['origin.foreign', 'host.foreign'] },
      },
      {
        what: 'it looks at POST only',
        instead: ({ method, path }) =>
          method === 'GET' && path === '/mcp'
            ? { headers: { 'content-type': 'text/event-stream' }, body: ': open\n\n' }
            : undefined,
        complaint: 'auth.methods: fail',
        seen: /GET: 200/,
        hint: /every method/,
      },
    ]))

  describe('the challenge', () =>
    itTells([
      {
        what: 'there is none',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            delete answer.headers['www-authenticate']
        },
        complaint: 'challenge.present: fail',
        seen: /no WWW-Authenticate/,
        hint: /RFC 6750/,
      },
      {
        what: 'another scheme only',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Basic realm="mcp"'
        },
        complaint: 'challenge.present: fail',
        seen: /Basic/,
        hint: /scheme Bearer/,
      },
      {
        what: 'a comma behind the scheme',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization === undefined)
            answer.headers['www-authenticate'] = 'Bearer, error="invalid_token"'
        },
        complaint: 'challenge.syntax: fail',
        seen: /belongs to no scheme/,
        hint: /RFC 9110 §11\.6\.1/,
      },
      {
        what: 'another scheme first',
        alter: challenge((value) => `DPoP algs="ES256", ${value}`),
        complaint: 'challenge.order: warn',
        seen: /before Bearer/,
        hint: /first/,
      },
      {
        what: 'a text that looks like the parameter, in front of it',
        alter: challenge((value) => value.replace('realm="', 'realm="resource_metadata=x ')),
        complaint: 'challenge.order: fail',
        seen: /not the parameter/,
        hint: /before every text/,
      },
      {
        what: 'no resource_metadata',
        alter: challenge((value) => value.replace(/, resource_metadata="[^"]*"/, '')),
        complaint: 'challenge.resource-metadata: warn',
        seen: /well-known/,
        hint: /RFC 9728 §5\.1/,
      },
      {
        what: 'an address on another host, as behind a proxy',
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://localhost')),
        complaint: 'challenge.resource-metadata: warn',
        seen: /another host/,
        hint: /public URL/,
      },
      {
        what: 'an address that is not https',
        alter: challenge((value) => value.replace('http://127.0.0.1', 'http://mcp.internal')),
        complaint: 'challenge.resource-metadata: fail',
        seen: /not https/,
        hint: /public URL/,
        // There is nobody to ask at that address.
        asked: { ignore: ['metadata.found'] },
      },
      {
        what: 'a relative address',
        alter: challenge((value) =>
          value.replace(/resource_metadata="[^"]*"/, 'resource_metadata="/metadata"'),
        ),
        complaint: 'challenge.resource-metadata: fail',
        seen: /no absolute URL/,
        hint: /public URL/,
      },
      {
        what: 'scopes with commas and spaces between',
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read  mcp:write"')),
        complaint: 'challenge.scope: fail',
        seen: /mcp:read mcp:write/,
        hint: /one space/,
      },
      {
        what: 'offline_access among the scopes',
        alter: challenge((value) => value.replace('scope="mcp:read"', 'scope="mcp:read offline_access"')),
        complaint: 'challenge.scope: warn',
        seen: /offline_access/,
        hint: /leave offline_access out/,
      },
    ]))

  describe('the metadata document', () =>
    itTells([
      {
        what: 'nowhere',
        instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 404 } : undefined),
        complaint: 'metadata.found: fail',
        seen: /nowhere/,
        hint: /protectedResourceRouter/,
      },
      {
        what: 'not where the challenge says',
        instead: ({ path }) =>
          path === '/.well-known/oauth-protected-resource/mcp' ? { status: 404 } : undefined,
        complaint: 'metadata.found: fail',
        seen: /nowhere else/,
        hint: /name the right URL/,
      },
      {
        what: 'behind the gate',
        instead: ({ path }) => (path.startsWith('/.well-known/') ? { status: 401 } : undefined),
        complaint: 'metadata.found: fail',
        seen: /401/,
        hint: /without asking for a token/,
      },
      {
        what: 'as plain text',
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) answer.headers['content-type'] = 'text/plain'
        },
        complaint: 'metadata.found: warn',
        seen: /text\/plain/,
        hint: /application\/json/,
      },
      {
        what: 'a trailing slash',
        alter: metadata((document) => {
          document.resource += '/'
        }),
        complaint: 'metadata.resource: fail',
        seen: /\/mcp\/,/,
        hint: /trailing slash/,
      },
      {
        what: 'another host',
        alter: metadata((document) => {
          document.resource = 'https://mcp.internal/mcp'
        }),
        complaint: 'metadata.resource: fail',
        seen: /mcp\.internal/,
        hint: /to the letter/,
      },
      {
        what: 'no resource',
        alter: metadata((document) => {
          delete document.resource
        }),
        complaint: 'metadata.resource: fail',
        seen: /missing/,
        hint: /to the letter/,
      },
      {
        what: 'the origin alone',
        alter: metadata((document) => {
          document.resource = new URL(document.resource).origin
        }),
        complaint: 'metadata.resource: warn',
        seen: /RFC 9728 §3\.3/,
        hint: /to the letter/,
      },
      {
        what: 'no authorization server',
        alter: metadata((document) => {
          document.authorization_servers = []
        }),
        complaint: 'metadata.authorization-servers: fail',
        seen: /no list/,
        hint: /RFC 9728 §2/,
      },
      {
        what: 'an authorization server that is not https',
        alter: metadata((document) => {
          document.authorization_servers = ['http://auth.example.com']
        }),
        complaint: 'metadata.authorization-servers: fail',
        seen: /auth\.example\.com/,
        hint: /https URLs/,
      },
      {
        what: 'an empty list of scopes',
        alter: metadata((document) => {
          document.scopes_supported = []
        }),
        complaint: 'metadata.members: fail',
        seen: /empty/,
        hint: /leave the member out/,
      },
      {
        what: 'offline_access among the scopes',
        alter: metadata((document) => {
          document.scopes_supported.push('offline_access')
        }),
        complaint: 'metadata.members: warn',
        seen: /offline_access/,
        hint: /leave it out/,
      },
      {
        what: 'tokens in the query only',
        alter: metadata((document) => {
          document.bearer_methods_supported = ['query']
        }),
        complaint: 'metadata.members: fail',
        seen: /header/,
        hint: /Authorization header only/,
      },
    ]))

  describe('the authorization server', () =>
    itTells([
      {
        what: 'no metadata',
        issuerAnswer: () => ({ status: 404 }),
        complaint: 'issuer.metadata: fail',
        seen: /no metadata/,
        hint: /RFC 8414/,
      },
      {
        what: 'another issuer',
        issuer: (document) => {
          document.issuer = 'https://auth.example.com'
        },
        complaint: 'issuer.identity: fail',
        seen: /calls itself https:\/\/auth\.example\.com/,
        hint: /RFC 8414 §3\.3/,
      },
      {
        what: 'a slash more',
        issuer: (document) => {
          document.issuer += '/'
        },
        complaint: 'issuer.identity: warn',
        seen: /calls itself/,
        hint: /RFC 8414 §3\.3/,
      },
      {
        what: 'no token endpoint',
        issuer: (document) => {
          delete document.token_endpoint
        },
        complaint: 'issuer.endpoints: fail',
        seen: /no token_endpoint/,
        hint: /authorization code flow/,
      },
      {
        what: 'an endpoint that is not https',
        issuer: (document) => {
          document.authorization_endpoint = 'http://auth.example.com/authorize'
        },
        complaint: 'issuer.endpoints: fail',
        seen: /not https/,
        hint: /on https/,
      },
      {
        what: 'no code',
        issuer: (document) => {
          document.response_types_supported = ['token']
        },
        complaint: 'issuer.endpoints: fail',
        seen: /token/,
        hint: /authorization code flow/,
      },
      {
        what: 'nothing said of PKCE',
        issuer: (document) => {
          delete document.code_challenge_methods_supported
        },
        complaint: 'issuer.pkce: fail',
        seen: /does not name/,
        hint: /S256/,
      },
      {
        what: 'plain PKCE only',
        issuer: (document) => {
          document.code_challenge_methods_supported = ['plain']
        },
        complaint: 'issuer.pkce: fail',
        seen: /only plain/,
        hint: /S256/,
      },
      {
        what: 'no way to register',
        issuer: (document) => {
          delete document.registration_endpoint
        },
        complaint: 'issuer.registration: warn',
        seen: /neither/,
        hint: /by hand/,
      },
      {
        what: 'no CORS',
        issuerAnswer: (path) =>
          path === '/.well-known/oauth-authorization-server' ? { status: 200, headers: {} } : undefined,
        complaint: 'cors.issuers: warn',
        seen: /no Access-Control-Allow-Origin/,
        hint: /token endpoints/,
      },
    ]))

  describe('the verifier', () =>
    itTells([
      {
        what: 'it takes anything',
        oauth: {
          verifyToken: ({ bearerToken }) => ({
            valid: bearerToken !== undefined,
            scopes: 'mcp:read mcp:write',
          }),
        },
        complaint: 'token.wrong: fail',
        seen: /accepted/,
        hint: /jwtVerifier or introspectionVerifier/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'it fails for what is no token',
        alter: (answer, { headers }) => {
          if (headers.authorization?.startsWith('Bearer doctor-') === true) answer.status = 500
        },
        complaint: 'token.wrong: fail',
        seen: /500/,
        hint: /answer 401/,
      },
      {
        what: 'it says nothing of a wrong token',
        alter: (answer, { headers }) => {
          if (answer.status === 401 && headers.authorization?.startsWith('Bearer doctor-') === true)
            answer.headers['www-authenticate'] = 'Bearer'
        },
        complaint: 'token.wrong: warn',
        seen: /no error/,
        hint: /invalid_token/,
      },
      {
        what: 'it refuses a wrong token within a 200',
        instead: ({ headers }) =>
          headers.authorization?.startsWith('Bearer doctor-') === true
            ? json({ error: { code: -32_001, message: 'Unauthorized' } })
            : undefined,
        complaint: 'token.wrong: fail',
        seen: /an error within a 200/,
        hint: /answer 401/,
      },
      {
        what: 'it reads claims and no signature',
        instead: (request) =>
          isForged(request) && claimsOf(request).exp > Date.now() / 1000 ? { status: 200 } : undefined,
        complaint: 'token.forged: fail',
        seen: /accepted/,
        hint: /verify the signature/,
      },
      {
        what: 'it takes what needs no signature',
        instead: (request) => (algorithmOf(request) === 'none' ? { status: 200 } : undefined),
        complaint: 'token.unsigned: fail',
        seen: /accepted/,
        hint: /asymmetric/,
      },
      {
        what: 'it says 403 to an expired token',
        instead: (request) =>
          isForged(request) && claimsOf(request).exp < Date.now() / 1000 ? { status: 403 } : undefined,
        complaint: 'token.expired: fail',
        seen: /403/,
        hint: /answer 401/,
      },
      {
        what: 'it wants another audience',
        oauth: { verifyToken: () => undefined },
        complaint: 'token.accepted: fail',
        seen: /401, invalid_token/,
        hint: /audience is the resource/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'it wants more scopes than the token has',
        oauth: { scopes: ['mcp:admin'] },
        complaint: 'token.accepted: fail',
        seen: /403, insufficient_scope/,
        hint: /mcp:admin/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'it wants the scheme written in one way',
        instead: ({ headers }) =>
          headers.authorization?.startsWith('bearer ') === true ? { status: 401 } : undefined,
        complaint: 'token.scheme-case: warn',
        seen: /lower case/,
        hint: /RFC 9110 §11\.1/,
      },
      {
        what: 'a lack of scopes is no challenge',
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer realm="mcp"'
        },
        complaint: 'token.under-scoped: fail',
        seen: /without error/,
        hint: /insufficient_scope/,
      },
      {
        what: 'a challenge for scopes names none',
        alter: (answer) => {
          if (answer.status === 403 && answer.headers['www-authenticate'] !== undefined)
            answer.headers['www-authenticate'] = 'Bearer error="insufficient_scope"'
        },
        complaint: 'token.under-scoped: warn',
        seen: /without scope and resource_metadata/,
        hint: /scope="…"/,
      },
      {
        what: 'a lack of scopes is an error within a 200',
        alter: (answer) => {
          if (answer.status !== 403 || answer.headers['www-authenticate'] === undefined) return
          answer.status = 200
          delete answer.headers['www-authenticate']
          answer.body = '{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[]}}'
        },
        complaint: 'token.under-scoped: fail',
        seen: /an error within a 200/,
        hint: /answer 403/,
      },
      {
        what: 'scopes are not looked at',
        complaint: 'token.under-scoped: fail',
        seen: /accepted/,
        hint: /check the scopes/,
        asked: { call: 'greet' },
      },
    ]))
})
