import { header, itReports, json } from '../support/cli/faults.ts'

const EXPOSED = 'access-control-expose-headers'

describe('doctor, for a fault in the responses of a server,', () => {
  describe('in the protocol,', () =>
    itReports([
      {
        what: 'a server that supports only old revisions',
        alter: (answer, { message, headers }) => {
          if (answer.status !== 200) return
          const version = headers['mcp-protocol-version'] ?? message?.params?.protocolVersion
          if (version === '2026-07-28') Object.assign(answer, json({ error: { code: -32_022 } }, 400))
          else answer.body = answer.body.replace('"2025-11-25"', '"2025-06-18"')
        },
        finds: [
          'protocol.revisions: warn',
          /2025-03-26, 2025-06-18; not 2025-11-25 \(offers another revision\), 2026-07-28 \(400\)/,
          /2026-07-28/,
        ],
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a server that supports no known revision',
        alter: (answer, { message }) => {
          if (answer.status === 200 && message !== undefined)
            Object.assign(answer, json({ error: { code: -32_603 } }))
        },
        finds: ['protocol.revisions: fail', /none of/, /update/],
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a server that accepts every version',
        instead: ({ headers }) =>
          headers['mcp-protocol-version'] === '1999-12-31' ? json({ result: { tools: [] } }) : undefined,
        finds: ['protocol.version-header: warn', /1999/, /respond with 400/],
      },
      {
        what: 'a server that does not compare headers with the body',
        instead: ({ headers, message }) =>
          headers['mcp-method'] === 'server/discover' && message.method === 'tools/list'
            ? json({ result: { tools: [] } })
            : undefined,
        finds: ['protocol.header-mismatch: fail', /tools\/list with Mcp-Method: server\/discover/, /-32020/],
      },
      {
        what: 'a server that fails for an invalid body',
        instead: ({ body, message }) => (body !== '' && message === undefined ? { status: 500 } : undefined),
        finds: ['protocol.bad-json: fail', /500/, /-32700/],
      },
      {
        what: 'a server that rejects an invalid body without an error',
        instead: ({ body, message }) => (body !== '' && message === undefined ? { status: 400 } : undefined),
        finds: ['protocol.bad-json: warn', /400/, /-32700/],
      },
    ]))

  describe('in calls,', () => {
    let discoveries = 0
    beforeEach(() => {
      discoveries = 0
    })
    const isListing = (request: { message: any; headers: any }): boolean =>
      request.message?.method === 'tools/list' &&
      request.headers.authorization !== undefined &&
      request.headers['mcp-method'] === 'tools/list' &&
      request.headers['mcp-protocol-version'] === '2026-07-28'

    itReports([
      {
        what: 'a server that fails at the second request',
        instead: ({ message }) =>
          message?.method === 'server/discover' && ++discoveries > 1
            ? json({ error: { code: -32_603, message: 'no' } }, 500)
            : undefined,
        finds: ['call.round-trip: fail', /500, JSON-RPC error -32603/, /log/],
      },
      {
        what: 'a tool without a schema',
        instead: (request) => (isListing(request) ? json({ result: { tools: [{ name: 'a' }] } }) : undefined),
        finds: ['call.tools-list: fail', /inputSchema of type object: 1/, /ignore the whole list/],
      },
      {
        what: 'two tools of the same name',
        instead: (request) =>
          isListing(request)
            ? json({
                result: { tools: ['a', 'a'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
              })
            : undefined,
        finds: ['call.tools-list: fail', /duplicate names: a/, /unique name/],
      },
      {
        what: 'a tool name with unsupported characters',
        instead: (request) =>
          isListing(request)
            ? json({
                result: {
                  tools: [
                    {
                      name: 'add two\u001b[31m',
                      title: 'Add',
                      annotations: { readOnlyHint: true },
                      inputSchema: { type: 'object' },
                    },
                  ],
                },
              })
            : undefined,
        finds: ['tools.directory: warn', /more than 64: add two \[31m; affects/, /^Use short names/],
      },
      {
        what: 'a public cache scope for a list that requires a token',
        instead: (request) =>
          isListing(request) ? json({ result: { tools: [], cacheScope: 'public' } }) : undefined,
        finds: ['call.tools-list: warn', /cacheScope is public/, /private/],
      },
      {
        what: 'an error instead of a list of tools',
        instead: (request) => (isListing(request) ? json({ error: { code: -32_603 } }) : undefined),
        finds: ['call.tools-list: fail', /-32603/, /log/],
      },
      {
        what: 'a tool that returns an error',
        finds: ['call.tool: fail', /missing/, /--arguments/],
        instead: ({ message }) =>
          message?.params?.name === 'missing' ? json({ result: { isError: true, content: [] } }) : undefined,
        asked: { call: 'missing', underScopedToken: undefined },
      },
      {
        what: 'a tool that does not exist',
        finds: ['call.tool: fail', /JSON-RPC error -32602/, /check the name/],
        asked: { call: 'missing', underScopedToken: undefined },
      },
    ])
  })

  describe('in CORS,', () =>
    itReports([
      {
        what: 'a preflight that requires a token',
        instead: ({ method, path }) =>
          method === 'OPTIONS' && path === '/mcp' ? { status: 401 } : undefined,
        finds: ['cors.preflight: fail', /401 for http:\/\/localhost:6274, without/, /mcpCors before mcpAuth/],
      },
      {
        what: 'a server without CORS headers',
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        finds: ['cors.preflight: warn', /in a browser cannot connect/, /mcpCors/],
      },
      {
        what: 'a server without CORS headers, with --origin',
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        finds: ['cors.preflight: fail', /without Access-Control-Allow-Origin/, /mcpCors/],
        asked: { origin: 'http://localhost:3000' },
      },
      {
        what: 'a server that allows another origin than that of --origin',
        alter: (answer, { headers }) => {
          if (headers.origin !== 'https://app.example.com') return
          answer.headers['access-control-allow-origin'] = 'https://other.example.com'
        },
        finds: [
          'cors.preflight: fail',
          /204 for https:\/\/app\.example\.com: the server allows https:\/\/other\.example\.com only$/,
          /^allow the origin of the web page .* or correct --origin$/,
        ],
        asked: { origin: 'https://app.example.com' },
      },
      {
        what: 'a server that allows no page of the origin of --origin',
        alter: (answer, { headers, method }) => {
          if (headers.origin !== 'https://app.example.com') return
          delete answer.headers['access-control-allow-origin']
          if (method === 'OPTIONS') answer.headers.vary = 'Origin'
        },
        finds: ['cors.preflight: fail', /: the server allows other origins only$/, /correct --origin/],
        asked: { origin: 'https://app.example.com' },
      },
      {
        what: 'a wildcard that does not include Authorization',
        alter: header('access-control-allow-headers', 204, () => '*'),
        finds: ['cors.headers: fail', /not allowed: authorization$/, /does not include Authorization/],
      },
      {
        what: 'a server that does not allow the headers of 2026-07-28',
        alter: header(
          'access-control-allow-headers',
          204,
          () => 'Authorization,Content-Type,MCP-Protocol-Version',
        ),
        finds: ['cors.headers: fail', /mcp-method, mcp-name/, /individually/],
      },
      {
        what: 'a server that does not allow the headers of tool parameters',
        alter: header('access-control-allow-headers', 204, (value) =>
          value.replace(/,?mcp-param-doctor/i, ''),
        ),
        finds: ['cors.headers: warn', /not allowed: mcp-param-doctor/, /every requested Mcp-Param-\*/],
      },
      {
        what: 'a 401 that web pages cannot read',
        alter: header('access-control-allow-origin', 401, () => undefined),
        finds: ['cors.responses: fail', /401 without/, /including errors/],
      },
      {
        what: 'a 403 that web pages cannot read',
        alter: header('access-control-allow-origin', 403, () => undefined),
        finds: ['cors.responses: fail', /403 without/, /including errors/],
      },
      {
        what: 'cookies for every origin',
        alter: (answer, { headers }) => {
          if (headers.origin === undefined || answer.headers['access-control-allow-origin'] === undefined)
            return
          answer.headers['access-control-allow-origin'] = headers.origin
          answer.headers['access-control-allow-credentials'] = 'true'
        },
        finds: ['cors.responses: warn', /Credentials/, /remove the header/],
      },
      {
        what: 'a challenge that web pages cannot read',
        alter: header(EXPOSED, 401, (value) => value.replace('WWW-Authenticate,', '')),
        finds: ['cors.exposed: fail', /401 hides www-authenticate/, /Access-Control-Expose-Headers/],
      },
      {
        what: 'a metadata document that web pages cannot read',
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) delete answer.headers['access-control-allow-origin']
        },
        finds: ['cors.metadata: fail', /without Access-Control-Allow-Origin/, /protectedResourceRouter/],
      },
      {
        what: 'a metadata document without a preflight',
        instead: ({ method, path }) =>
          method === 'OPTIONS' && path.startsWith('/.well-known/') ? { status: 404 } : undefined,
        finds: ['cors.metadata: warn', /gets 404/, /preflight/],
      },
    ]))

  describe('in the checks of Origin, Host, and limits,', () =>
    itReports([
      {
        what: 'a server on loopback that allows every origin',
        options: { allowedOrigins: '*' },
        finds: ['origin.foreign: warn', /200 for Origin/, /check Origin/],
      },
      {
        what: 'a server on loopback that allows every host name',
        options: { allowedHosts: ['127.0.0.1', 'attacker.example'] },
        finds: ['host.foreign: warn', /200 for Host/, /check Origin and Host/],
      },
      {
        what: 'a server that trusts forwarded headers of clients',
        alter: (answer, { headers }) => {
          const host = headers['x-forwarded-host']
          if (host === undefined || answer.status !== 401) return
          answer.headers['www-authenticate'] = `Bearer resource_metadata="https://${host}/metadata"`
        },
        finds: ['host.forwarded: warn', /X-Forwarded-Host/, /public URL/],
      },
      {
        what: 'a rate limit without Retry-After',
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: (answer) => {
          delete answer.headers['retry-after']
        },
        finds: ['limit.rate: warn', /429 after \d+ requests without Retry-After/, /send Retry-After/],
      },
      {
        what: 'a rate limit with an invalid Retry-After',
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: header('retry-after', 429, () => 'soon'),
        finds: ['limit.rate: fail', /soon/, /number of seconds/],
      },
    ]))
})
