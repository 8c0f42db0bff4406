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
        problem: 'protocol.revisions: warn',
        seen: /2025-03-26, 2025-06-18; not 2025-11-25 \(offers another revision\), 2026-07-28 \(400\)/,
        hint: /2026-07-28/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a server that supports no known revision',
        alter: (answer, { message }) => {
          if (answer.status === 200 && message !== undefined)
            Object.assign(answer, json({ error: { code: -32_603 } }))
        },
        problem: 'protocol.revisions: fail',
        seen: /none of/,
        hint: /update/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'a server that accepts every version',
        instead: ({ headers }) =>
          headers['mcp-protocol-version'] === '1999-12-31' ? json({ result: { tools: [] } }) : undefined,
        problem: 'protocol.version-header: warn',
        seen: /1999/,
        hint: /respond with 400/,
      },
      {
        what: 'a server that does not compare headers with the body',
        instead: ({ headers, message }) =>
          headers['mcp-method'] === 'server/discover' && message.method === 'tools/list'
            ? json({ result: { tools: [] } })
            : undefined,
        problem: 'protocol.header-mismatch: fail',
        seen: /tools\/list with Mcp-Method: server\/discover/,
        hint: /-32020/,
      },
      {
        what: 'a server that fails for an invalid body',
        instead: ({ body, message }) => (body !== '' && message === undefined ? { status: 500 } : undefined),
        problem: 'protocol.bad-json: fail',
        seen: /500/,
        hint: /-32700/,
      },
      {
        what: 'a server that rejects an invalid body without an error',
        instead: ({ body, message }) => (body !== '' && message === undefined ? { status: 400 } : undefined),
        problem: 'protocol.bad-json: warn',
        seen: /400/,
        hint: /-32700/,
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
        problem: 'call.round-trip: fail',
        seen: /500, JSON-RPC error -32603/,
        hint: /log/,
      },
      {
        what: 'a tool without a schema',
        instead: (request) => (isListing(request) ? json({ result: { tools: [{ name: 'a' }] } }) : undefined),
        problem: 'call.tools-list: fail',
        seen: /inputSchema of type object: 1/,
        hint: /ignore the whole list/,
      },
      {
        what: 'two tools of the same name',
        instead: (request) =>
          isListing(request)
            ? json({
                result: { tools: ['a', 'a'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
              })
            : undefined,
        problem: 'call.tools-list: fail',
        seen: /duplicate names: a/,
        hint: /unique name/,
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
        problem: 'tools.directory: warn',
        seen: /more than 64: add two \[31m; affects/,
        hint: /^Use short names/,
      },
      {
        what: 'a public cache scope for a list that requires a token',
        instead: (request) =>
          isListing(request) ? json({ result: { tools: [], cacheScope: 'public' } }) : undefined,
        problem: 'call.tools-list: warn',
        seen: /cacheScope is public/,
        hint: /private/,
      },
      {
        what: 'an error instead of a list of tools',
        instead: (request) => (isListing(request) ? json({ error: { code: -32_603 } }) : undefined),
        problem: 'call.tools-list: fail',
        seen: /-32603/,
        hint: /log/,
      },
      {
        what: 'a tool that returns an error',
        problem: 'call.tool: fail',
        seen: /missing/,
        hint: /--arguments/,
        instead: ({ message }) =>
          message?.params?.name === 'missing' ? json({ result: { isError: true, content: [] } }) : undefined,
        asked: { call: 'missing', underScopedToken: undefined },
      },
      {
        what: 'a tool that does not exist',
        problem: 'call.tool: fail',
        seen: /JSON-RPC error -32602/,
        hint: /check the name/,
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
        problem: 'cors.preflight: fail',
        seen: /401 for http:\/\/localhost:6274, without/,
        hint: /mcpCors before mcpAuth/,
      },
      {
        what: 'a server without CORS headers',
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        problem: 'cors.preflight: warn',
        seen: /in a browser cannot connect/,
        hint: /mcpCors/,
      },
      {
        what: 'a server without CORS headers, with --origin',
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        problem: 'cors.preflight: fail',
        seen: /without Access-Control-Allow-Origin/,
        hint: /mcpCors/,
        asked: { origin: 'http://localhost:3000' },
      },
      {
        what: 'a server that allows another origin than that of --origin',
        alter: (answer, { headers }) => {
          if (headers.origin !== 'https://app.example.com') return
          answer.headers['access-control-allow-origin'] = 'https://other.example.com'
        },
        problem: 'cors.preflight: fail',
        seen: /204 for https:\/\/app\.example\.com: the server allows https:\/\/other\.example\.com only$/,
        hint: /^allow the origin of the web page .* or correct --origin$/,
        asked: { origin: 'https://app.example.com' },
      },
      {
        what: 'a server that allows no page of the origin of --origin',
        alter: (answer, { headers, method }) => {
          if (headers.origin !== 'https://app.example.com') return
          delete answer.headers['access-control-allow-origin']
          if (method === 'OPTIONS') answer.headers.vary = 'Origin'
        },
        problem: 'cors.preflight: fail',
        seen: /: the server allows other origins only$/,
        hint: /correct --origin/,
        asked: { origin: 'https://app.example.com' },
      },
      {
        what: 'a wildcard that does not include Authorization',
        alter: header('access-control-allow-headers', 204, () => '*'),
        problem: 'cors.headers: fail',
        seen: /not allowed: authorization$/,
        hint: /does not include Authorization/,
      },
      {
        what: 'a server that does not allow the headers of 2026-07-28',
        alter: header(
          'access-control-allow-headers',
          204,
          () => 'Authorization,Content-Type,MCP-Protocol-Version',
        ),
        problem: 'cors.headers: fail',
        seen: /mcp-method, mcp-name/,
        hint: /individually/,
      },
      {
        what: 'a server that does not allow the headers of tool parameters',
        alter: header('access-control-allow-headers', 204, (value) =>
          value.replace(/,?mcp-param-doctor/i, ''),
        ),
        problem: 'cors.headers: warn',
        seen: /not allowed: mcp-param-doctor/,
        hint: /every requested Mcp-Param-\*/,
      },
      {
        what: 'a 401 that web pages cannot read',
        alter: header('access-control-allow-origin', 401, () => undefined),
        problem: 'cors.responses: fail',
        seen: /401 without/,
        hint: /including errors/,
      },
      {
        what: 'a 403 that web pages cannot read',
        alter: header('access-control-allow-origin', 403, () => undefined),
        problem: 'cors.responses: fail',
        seen: /403 without/,
        hint: /including errors/,
      },
      {
        what: 'cookies for every origin',
        alter: (answer, { headers }) => {
          if (headers.origin === undefined || answer.headers['access-control-allow-origin'] === undefined)
            return
          answer.headers['access-control-allow-origin'] = headers.origin
          answer.headers['access-control-allow-credentials'] = 'true'
        },
        problem: 'cors.responses: warn',
        seen: /Credentials/,
        hint: /remove the header/,
      },
      {
        what: 'a challenge that web pages cannot read',
        alter: header(EXPOSED, 401, (value) => value.replace('WWW-Authenticate,', '')),
        problem: 'cors.exposed: fail',
        seen: /401 hides www-authenticate/,
        hint: /Access-Control-Expose-Headers/,
      },
      {
        what: 'a metadata document that web pages cannot read',
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) delete answer.headers['access-control-allow-origin']
        },
        problem: 'cors.metadata: fail',
        seen: /without Access-Control-Allow-Origin/,
        hint: /protectedResourceRouter/,
      },
      {
        what: 'a metadata document without a preflight',
        instead: ({ method, path }) =>
          method === 'OPTIONS' && path.startsWith('/.well-known/') ? { status: 404 } : undefined,
        problem: 'cors.metadata: warn',
        seen: /gets 404/,
        hint: /preflight/,
      },
    ]))

  describe('in the checks of Origin, Host, and limits,', () =>
    itReports([
      {
        what: 'a server on loopback that allows every origin',
        options: { allowedOrigins: '*' },
        problem: 'origin.foreign: warn',
        seen: /200 for Origin/,
        hint: /check Origin/,
      },
      {
        what: 'a server on loopback that allows every host name',
        options: { allowedHosts: ['127.0.0.1', 'attacker.example'] },
        problem: 'host.foreign: warn',
        seen: /200 for Host/,
        hint: /check Origin and Host/,
      },
      {
        what: 'a server that trusts forwarded headers of clients',
        alter: (answer, { headers }) => {
          const host = headers['x-forwarded-host']
          if (host === undefined || answer.status !== 401) return
          answer.headers['www-authenticate'] = `Bearer resource_metadata="https://${host}/metadata"`
        },
        problem: 'host.forwarded: warn',
        seen: /X-Forwarded-Host/,
        hint: /public URL/,
      },
      {
        what: 'a rate limit without Retry-After',
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: (answer) => {
          delete answer.headers['retry-after']
        },
        problem: 'limit.rate: warn',
        seen: /429 after \d+ requests without Retry-After/,
        hint: /send Retry-After/,
      },
      {
        what: 'a rate limit with an invalid Retry-After',
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: header('retry-after', 429, () => 'soon'),
        problem: 'limit.rate: fail',
        seen: /soon/,
        hint: /number of seconds/,
      },
    ]))
})
