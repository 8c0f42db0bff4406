import { header, json, on } from '../support/cli/faults.ts'
import { itReports } from '../support/cli/recorded.ts'

const EXPOSED = 'access-control-expose-headers'

describe('doctor, for a fault in the responses of a server,', () => {
  describe('in the protocol,', () =>
    itReports('serving', {
      'a server that supports only old revisions': {
        alter: (answer, { message, headers }) => {
          if (answer.status !== 200) return
          const version = headers['mcp-protocol-version'] ?? message?.params?.protocolVersion
          if (version === '2026-07-28') Object.assign(answer, json({ error: { code: -32_022 } }, 400))
          else answer.body = answer.body.replace('"2025-11-25"', '"2025-06-18"')
        },
        asked: { underScopedToken: undefined },
      },
      'a server that supports no known revision': {
        alter: (answer, { message }) => {
          if (answer.status === 200 && message !== undefined)
            Object.assign(answer, json({ error: { code: -32_603 } }))
        },
        asked: { underScopedToken: undefined },
      },
      'a server that accepts every version': on(
        ({ headers }) => headers['mcp-protocol-version'] === '1999-12-31',
        json({ result: { tools: [] } }),
      ),
      'a server that does not compare headers with the body': on(
        ({ headers, message }) =>
          headers['mcp-method'] === 'server/discover' && message.method === 'tools/list',
        json({ result: { tools: [] } }),
      ),
      'a server that fails for an invalid body': on(
        ({ body, message }) => body !== '' && message === undefined,
        { status: 500 },
      ),
      'a server that rejects an invalid body without an error': on(
        ({ body, message }) => body !== '' && message === undefined,
        { status: 400 },
      ),
    }))

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

    itReports('serving', {
      'a server that fails at the second request': on(
        ({ message }) => message?.method === 'server/discover' && ++discoveries > 1,
        json({ error: { code: -32_603, message: 'no' } }, 500),
      ),
      'a tool without a schema': on(
        (request) => isListing(request),
        json({ result: { tools: [{ name: 'a' }] } }),
      ),
      'two tools of the same name': on(
        (request) => isListing(request),
        json({
          result: { tools: ['a', 'a'].map((name) => ({ name, inputSchema: { type: 'object' } })) },
        }),
      ),
      'a tool name with unsupported characters': on(
        (request) => isListing(request),
        json({
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
        }),
      ),
      'a public cache scope for a list that requires a token': on(
        (request) => isListing(request),
        json({ result: { tools: [], cacheScope: 'public' } }),
      ),
      'an error instead of a list of tools': on(
        (request) => isListing(request),
        json({ error: { code: -32_603 } }),
      ),
      'a tool that returns an error': {
        ...on(
          ({ message }) => message?.params?.name === 'missing',
          json({ result: { isError: true, content: [] } }),
        ),
        asked: { call: 'missing', underScopedToken: undefined },
      },
      'a tool that is denied': {
        ...on(({ message }) => message?.params?.name === 'missing', { status: 403 }),
        asked: { call: 'missing', underScopedToken: undefined },
      },
      'a tool that does not exist': { asked: { call: 'missing', underScopedToken: undefined } },
    })
  })

  describe('in CORS,', () =>
    itReports('serving', {
      'a preflight that requires a token': on(({ method, path }) => method === 'OPTIONS' && path === '/mcp', {
        status: 401,
      }),
      'a server without CORS headers': {
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
      },
      'a server without CORS headers, with --origin': {
        alter: (answer, { path }) => {
          if (path !== '/mcp') return
          for (const name of Object.keys(answer.headers))
            if (name.startsWith('access-control-')) delete answer.headers[name]
        },
        asked: { origin: 'http://localhost:3000' },
      },
      'a server that allows another origin than that of --origin': {
        alter: (answer, { headers }) => {
          if (headers.origin !== 'https://app.example.com') return
          answer.headers['access-control-allow-origin'] = 'https://other.example.com'
        },
        asked: { origin: 'https://app.example.com' },
      },
      'a server that allows no page of the origin of --origin': {
        alter: (answer, { headers, method }) => {
          if (headers.origin !== 'https://app.example.com') return
          delete answer.headers['access-control-allow-origin']
          if (method === 'OPTIONS') answer.headers.vary = 'Origin'
        },
        asked: { origin: 'https://app.example.com' },
      },
      'a wildcard that does not include Authorization': {
        alter: header('access-control-allow-headers', 204, () => '*'),
      },
      'a server that does not allow the headers of 2026-07-28': {
        alter: header(
          'access-control-allow-headers',
          204,
          () => 'Authorization,Content-Type,MCP-Protocol-Version',
        ),
      },
      'a server that does not allow the headers of tool parameters': {
        alter: header('access-control-allow-headers', 204, (value) =>
          value.replace(/,?mcp-param-doctor/i, ''),
        ),
      },
      'a 401 that web pages cannot read': {
        alter: header('access-control-allow-origin', 401, () => undefined),
      },
      'a 403 that web pages cannot read': {
        alter: header('access-control-allow-origin', 403, () => undefined),
      },
      'cookies for every origin': {
        alter: (answer, { headers }) => {
          if (headers.origin === undefined || answer.headers['access-control-allow-origin'] === undefined)
            return
          answer.headers['access-control-allow-origin'] = headers.origin
          answer.headers['access-control-allow-credentials'] = 'true'
        },
      },
      'a challenge that web pages cannot read': {
        alter: header(EXPOSED, 401, (value) => value.replace('WWW-Authenticate,', '')),
      },
      'a metadata document that web pages cannot read': {
        alter: (answer, { path }) => {
          if (path.startsWith('/.well-known/')) delete answer.headers['access-control-allow-origin']
        },
      },
      'a metadata document without a preflight': on(
        ({ method, path }) => method === 'OPTIONS' && path.startsWith('/.well-known/'),
        { status: 404 },
      ),
    }))

  describe('in the checks of Origin, Host, and limits,', () =>
    itReports('serving', {
      'a server on loopback that allows every origin': { options: { allowedOrigins: '*' } },
      'a server on loopback that allows every host name': {
        options: { allowedHosts: ['127.0.0.1', 'attacker.example'] },
      },
      'a server that trusts forwarded headers of clients': {
        alter: (answer, { headers }) => {
          const host = headers['x-forwarded-host']
          if (host === undefined || answer.status !== 401) return
          answer.headers['www-authenticate'] = `Bearer resource_metadata="https://${host}/metadata"`
        },
      },
      'a rate limit without Retry-After': {
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: (answer) => {
          delete answer.headers['retry-after']
        },
      },
      'a rate limit with an invalid Retry-After': {
        oauth: { rateLimit: { points: 4, durationSeconds: 60 } },
        alter: header('retry-after', 429, () => 'soon'),
      },
    }))
})
