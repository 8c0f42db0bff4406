import { header, itTells, json } from '../support/cli/faults.ts'

const EXPOSED = 'access-control-expose-headers'

describe('faults that the doctor finds in what a server serves', () => {
  describe('the protocol', () =>
    itTells([
      {
        what: 'old revisions only',
        alter: (answer, { message, headers }) => {
          if (answer.status !== 200) return
          const version = headers['mcp-protocol-version'] ?? message?.params?.protocolVersion
          if (version === '2026-07-28') Object.assign(answer, json({ error: { code: -32_022 } }, 400))
          else answer.body = answer.body.replace('"2025-11-25"', '"2025-06-18"')
        },
        complaint: 'protocol.revisions: warn',
        seen: /2025-03-26, 2025-06-18; not 2025-11-25 \(offers another\), 2026-07-28 \(400\)/,
        hint: /2026-07-28/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'none that is known',
        alter: (answer, { message }) => {
          if (answer.status === 200 && message !== undefined)
            Object.assign(answer, json({ error: { code: -32_603 } }))
        },
        complaint: 'protocol.revisions: fail',
        seen: /none of/,
        hint: /update/,
        asked: { underScopedToken: undefined },
      },
      {
        what: 'every version passes',
        instead: ({ headers }) =>
          headers['mcp-protocol-version'] === '1999-12-31' ? json({ result: { tools: [] } }) : undefined,
        complaint: 'protocol.version-header: warn',
        seen: /1999/,
        hint: /answer 400/,
      },
      {
        what: 'headers are not compared',
        instead: ({ headers, message }) =>
          headers['mcp-method'] === 'server/discover' && message.method === 'tools/list'
            ? json({ result: { tools: [] } })
            : undefined,
        complaint: 'protocol.header-mismatch: fail',
        seen: /tools\/list that Mcp-Method calls server\/discover/,
        hint: /-32020/,
      },
      {
        what: 'a body that breaks the server',
        instead: ({ body, message }) => (body !== '' && message === undefined ? { status: 500 } : undefined),
        complaint: 'protocol.bad-json: fail',
        seen: /500/,
        hint: /-32700/,
      },
      {
        what: 'a body that is refused without a word',
        instead: ({ body, message }) => (body !== '' && message === undefined ? { status: 400 } : undefined),
        complaint: 'protocol.bad-json: warn',
        seen: /400/,
        hint: /-32700/,
      },
    ]))

  describe('calls', () => {
    let discoveries = 0
    beforeEach(() => {
      discoveries = 0
    })
    const isListing = (request: { message: any; headers: any }): boolean =>
      request.message?.method === 'tools/list' &&
      request.headers.authorization !== undefined &&
      request.headers['mcp-method'] === 'tools/list' &&
      request.headers['mcp-protocol-version'] === '2026-07-28'

    itTells([
      {
        what: 'one works, the next does not',
        instead: ({ message }) =>
          message?.method === 'server/discover' && ++discoveries > 1
            ? json({ error: { code: -32_603, message: 'no' } }, 500)
            : undefined,
        complaint: 'call.round-trip: fail',
        seen: /500, JSON-RPC error -32603/,
        hint: /log/,
      },
      {
        what: 'a tool without a schema',
        instead: (request) => (isListing(request) ? json({ result: { tools: [{ name: 'a' }] } }) : undefined),
        complaint: 'call.tools-list: fail',
        seen: /inputSchema of type object: 1/,
        hint: /drop the whole list/,
      },
      {
        what: 'a name twice',
        instead: (request) =>
          isListing(request)
            ? json({
                result: { tools: ['a', 'a'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
              })
            : undefined,
        complaint: 'call.tools-list: fail',
        seen: /twice: a/,
        hint: /name of its own/,
      },
      {
        what: 'an odd name',
        instead: (request) =>
          isListing(request)
            ? json({ result: { tools: [{ name: 'add two\u001b[31m', inputSchema: { type: 'object' } }] } })
            : undefined,
        complaint: 'call.tools-list: warn',
        seen: /odd names: add two \[31m$/,
        hint: /A-Z a-z/,
      },
      {
        what: 'a list for everybody that a token opened',
        instead: (request) =>
          isListing(request) ? json({ result: { tools: [], cacheScope: 'public' } }) : undefined,
        complaint: 'call.tools-list: warn',
        seen: /cacheScope is public/,
        hint: /private/,
      },
      {
        what: 'no list',
        instead: (request) => (isListing(request) ? json({ error: { code: -32_603 } }) : undefined),
        complaint: 'call.tools-list: fail',
        seen: /-32603/,
        hint: /log/,
      },
      {
        what: 'a tool that fails',
        complaint: 'call.tool: fail',
        seen: /missing/,
        hint: /--arguments/,
        instead: ({ message }) =>
          message?.params?.name === 'missing' ? json({ result: { isError: true, content: [] } }) : undefined,
        asked: { call: 'missing', underScopedToken: undefined },
      },
      {
        what: 'a tool that there is not',
        complaint: 'call.tool: fail',
        seen: /JSON-RPC error -32602/,
        hint: /check the name/,
        asked: { call: 'missing', underScopedToken: undefined },
      },
    ])
  })

  describe('CORS', () =>
    itTells([
      {
        what: 'the preflight needs a token',
        instead: ({ method, path }) =>
          method === 'OPTIONS' && path === '/mcp' ? { status: 401 } : undefined,
        complaint: 'cors.preflight: fail',
        seen: /401 for http:\/\/localhost:6274, without/,
        hint: /mcpCors in front of mcpAuth/,
      },
      {
        what: 'there is none',
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        complaint: 'cors.preflight: warn',
        seen: /in a browser cannot connect/,
        hint: /mcpCors/,
      },
      {
        what: 'there is none, though a page must work',
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        complaint: 'cors.preflight: fail',
        seen: /without Access-Control-Allow-Origin/,
        hint: /mcpCors/,
        asked: { origin: 'http://localhost:3000' },
      },
      {
        what: 'a wildcard that does not cover Authorization',
        alter: header('access-control-allow-headers', 204, () => '*'),
        complaint: 'cors.headers: fail',
        seen: /not allowed: authorization$/,
        hint: /does not cover Authorization/,
      },
      {
        what: 'the headers of 2026-07-28 are not known',
        alter: header(
          'access-control-allow-headers',
          204,
          () => 'Authorization,Content-Type,MCP-Protocol-Version',
        ),
        complaint: 'cors.headers: fail',
        seen: /mcp-method, mcp-name/,
        hint: /one by one/,
      },
      {
        what: 'the headers that tools name are not allowed',
        alter: header('access-control-allow-headers', 204, (value) =>
          value.replace(/,?mcp-param-doctor/i, ''),
        ),
        complaint: 'cors.headers: warn',
        seen: /not allowed: mcp-param-doctor/,
        hint: /every Mcp-Param-\*/,
      },
      {
        what: 'a 401 that pages cannot read',
        alter: header('access-control-allow-origin', 401, () => undefined),
        complaint: 'cors.responses: fail',
        seen: /401 without/,
        hint: /refusals and errors too/,
      },
      {
        what: 'a 403 that pages cannot read',
        alter: header('access-control-allow-origin', 403, () => undefined),
        complaint: 'cors.responses: fail',
        seen: /403 without/,
        hint: /refusals and errors too/,
      },
      {
        what: 'cookies for every page',
        alter: (answer, { headers }) => {
          if (headers.origin === undefined || answer.headers['access-control-allow-origin'] === undefined)
            return
          answer.headers['access-control-allow-origin'] = headers.origin
          answer.headers['access-control-allow-credentials'] = 'true'
        },
        complaint: 'cors.responses: warn',
        seen: /Credentials/,
        hint: /leave the header out/,
      },
      {
        what: 'the challenge is hidden',
        alter: header(EXPOSED, 401, (value) => value.replace('WWW-Authenticate,', '')),
        complaint: 'cors.exposed: fail',
        seen: /401 hides www-authenticate/,
        hint: /Access-Control-Expose-Headers/,
      },
      {
        what: 'pages cannot read the metadata',
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) delete answer.headers['access-control-allow-origin']
        },
        complaint: 'cors.metadata: fail',
        seen: /without Access-Control-Allow-Origin/,
        hint: /protectedResourceRouter/,
      },
      {
        what: 'no preflight for the metadata',
        instead: ({ method, path }) =>
          method === 'OPTIONS' && path.startsWith('/.well-known/') ? { status: 404 } : undefined,
        complaint: 'cors.metadata: warn',
        seen: /answered 404/,
        hint: /preflight/,
      },
    ]))

  describe('Origin, Host and limits', () =>
    itTells([
      {
        what: 'every origin is served on this machine',
        options: { allowedOrigins: '*' },
        complaint: 'origin.foreign: fail',
        seen: /200 to Origin/,
        hint: /allowedOrigins/,
      },
      {
        what: 'every host name is served on this machine',
        options: { allowedHosts: ['127.0.0.1', 'attacker.example'] },
        complaint: 'host.foreign: fail',
        seen: /200 to Host/,
        hint: /allowedHosts/,
      },
      {
        what: 'forwarded headers of anybody are trusted',
        alter: (answer, { headers }) => {
          const host = headers['x-forwarded-host']
          if (host === undefined || answer.status !== 401) return
          answer.headers['www-authenticate'] = `Bearer resource_metadata="https://${host}/metadata"`
        },
        complaint: 'host.forwarded: warn',
        seen: /X-Forwarded-Host/,
        hint: /public URL/,
      },
      {
        what: 'a limit that does not say when to come back',
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: (answer) => {
          delete answer.headers['retry-after']
        },
        complaint: 'limit.rate: warn',
        seen: /429 after \d+ requests without Retry-After/,
        hint: /send Retry-After/,
      },
      {
        what: 'a limit whose Retry-After means nothing',
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: header('retry-after', 429, () => 'soon'),
        complaint: 'limit.rate: fail',
        seen: /soon/,
        hint: /give seconds/,
      },
    ]))
})
