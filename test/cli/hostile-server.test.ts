import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect } from 'chai'
import fc from 'fast-check'
import { sendRequest } from '../../cli/doctor/http-exchange.ts'
import { type DoctorTarget, look, startTarget } from '../support/cli/doctor-target.ts'
import { listen } from '../support/listen.ts'
import { runs } from '../support/runs.ts'

const anything = fc.oneof(
  fc.jsonValue({ maxDepth: 2 }),
  fc.webUrl(),
  fc.constantFrom('', 'x', null, [], [1], {}),
)

/** Generates a document with members of any type. */
const documentOf = (...members: string[]) =>
  fc.record(Object.fromEntries(members.map((name) => [name, anything])), { requiredKeys: [] })

const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')

describe('doctor, with a hostile server,', () => {
  it('reports findings without an internal error for any documents and responses', async function () {
    this.timeout(60_000)
    let said: { resource: object; issuer: object; result: unknown; challenge: string }
    const target = await startTarget({
      instead: ({ path, message, headers }) => {
        const json = { 'content-type': 'application/json' }
        if (path.startsWith('/.well-known/')) return { headers: json, body: JSON.stringify(said.resource) }
        if (headers.authorization === undefined)
          return { status: 401, headers: { 'www-authenticate': said.challenge } }
        const result = message?.method === 'initialize' ? { protocolVersion: '2025-11-25' } : said.result
        return { headers: json, body: JSON.stringify({ jsonrpc: '2.0', id: 1, result }) }
      },
      issuer: (document) => Object.assign(document, said.issuer),
    })
    const url = target.url.href
    await fc.assert(
      fc.asyncProperty(
        fc.record({
          resource: fc
            .tuple(
              documentOf('resource', 'scopes_supported', 'bearer_methods_supported', 'authorization_servers'),
              fc.boolean(),
            )
            .map(([document, good]) =>
              good ? { ...document, resource: url, authorization_servers: [target.issuer] } : document,
            ),
          issuer: documentOf(
            'issuer',
            'authorization_endpoint',
            'token_endpoint',
            'registration_endpoint',
            'response_types_supported',
            'code_challenge_methods_supported',
          ),
          result: fc.oneof(
            anything,
            fc.record({ tools: fc.array(anything, { maxLength: 3 }), cacheScope: anything }),
          ),
          token: fc.oneof(
            fc.constant('some-token'),
            fc
              .tuple(documentOf('alg', 'typ'), documentOf('iss', 'aud', 'exp', 'nbf', 'scope', 'scp', 'cnf'))
              .map((parts) => `${parts.map((part) => encode(part)).join('.')}.c2lnbmF0dXJl`),
          ),
          challenge: fc.oneof(
            fc.constant(`Bearer resource_metadata="${url}/.well-known/x"`),
            fc.stringMatching(/^Bearer [ -~]{0,30}$/),
          ),
        }),
        async (given) => {
          said = given
          const { checks } = await look(target.url, { token: given.token, timeoutMs: 2000 })
          expect(checks.filter(({ seen }) => seen.includes('internal error in this check'))).to.deep.equal([])
          for (const { status, hint } of checks)
            expect(hint !== undefined).to.equal(status === 'warn' || status === 'fail')
        },
      ),
      { numRuns: runs(50) },
    )
  })

  describe('after a sign-in', () => {
    /** Examines a server whose authorization server issues a token. Returns the report, and what was printed and sent. */
    async function signIn(tokenFor: (target: DoctorTarget) => Promise<string>) {
      const sent = new Set<string>()
      let token = ''
      const target = await startTarget({
        oauth: { scopes: ['mcp:read', 'https://graph.example/Mail.Read'] },
        instead: ({ headers }) => {
          sent.add(headers.authorization ?? '')
          return undefined
        },
        // The response of the token endpoint, too.
        issuer: (document) => Object.assign(document, { access_token: token, token_type: 'Bearer' }),
        issuerAnswer: (path) =>
          path === '/token' ? { status: 200, headers: { 'content-type': 'application/json' } } : undefined,
      })
      token = await tokenFor(target)
      let printed = ''
      const report = await look(target.url, {
        login: { redirectPort: 0, clientId: 'doctor' },
        print: (text) => {
          printed += text
          const asked = new URL(/^http\S+$/m.exec(text)?.[0] ?? '').searchParams
          const answer = new URLSearchParams({ code: 'a-code', state: asked.get('state') ?? '' })
          void fetch(`${asked.get('redirect_uri')}?${answer}`)
        },
      })
      return { report, printed, isSent: sent.has(`Bearer ${token}`) }
    }

    for (const [what, isSent, audienceOf] of [
      ['another API', false, () => 'https://graph.example'],
      ['the server and another API', false, ({ url }) => [url.href, 'https://graph.example']],
      ['another path of the server', false, ({ url }) => `${url.origin}/other`],
      ['the issuer', false, ({ issuer }) => `${issuer}/userinfo`],
      ['the server', true, ({ url }) => url.href],
      ['the origin of the server', true, ({ url }) => url.origin],
      ['the server and the issuer', true, ({ url, issuer }) => [url.href, `${issuer}/userinfo`]],
      ['a name that is not a URL', true, () => 'api://notes'],
    ] as readonly [string, boolean, (target: DoctorTarget) => string | string[]][])
      it(`${isSent ? 'sends' : 'does not send'} a token for ${what}`, async () => {
        const { report, ...found } = await signIn((target) =>
          target.issueToken({ audience: audienceOf(target) as string }),
        )
        expect(found.isSent).to.equal(isSent)
        const withheld = report.checks.filter(({ seen }) => seen?.includes('does not send'))
        expect(withheld.map(({ id, status }) => `${id}: ${status}`)).to.deep.equal(
          isSent ? [] : ['token.login: ok', 'token.claims: fail'],
        )
      })

    it('prints the requested scopes before the URL of the sign-in', async () => {
      const { printed } = await signIn(async () => 'opaque-token')
      expect(printed).to.match(
        /^The sign-in requests the scopes mcp:read, https:\/\/graph\.example\/Mail\.Read\. Open this URL and sign in:\n\nhttp/,
      )
    })
  })

  for (const [what, body, kind] of [
    ['does not end', '{}', 'timeout'],
    ['has a chunk of an invalid size', 'zz\r\n', 'not-http'],
  ] as const)
    it(`reports a response whose body ${what} as ${kind}, not as a complete one`, async () => {
      const coding = kind === 'timeout' ? '' : 'transfer-encoding: chunked\r\n'
      const head = `HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n${coding}\r\n`
      const server = createServer((socket) => {
        socket.on('error', () => undefined).once('data', () => socket.write(head + body))
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const url = new URL(`http://127.0.0.1:${port}/mcp`)
      const failure = await sendRequest({ method: 'POST', url, headers: {}, timeoutMs: 200 }).catch(
        (error) => error,
      )
      expect(failure).to.have.property('kind', kind)
      server.close()
    })

  it('reads at most 1,000 events of a stream, and parses each at most twice', async () => {
    let sent = 0
    const { port } = await listen((_req, res) => {
      res.writeHead(200, { 'content-type': 'text/event-stream' })
      const write = (): void => {
        while (!res.destroyed && res.write('data: {\n\n'.repeat(1_000))) sent++
      }
      res.on('drain', write)
      write()
    })
    const { parse } = JSON
    let parsed = 0
    JSON.parse = (...args: Parameters<typeof parse>) => {
      parsed++
      return parse(...args)
    }
    try {
      const exchange = await sendRequest({
        method: 'POST',
        url: new URL(`http://127.0.0.1:${port}/mcp`),
        headers: {},
        timeoutMs: 10_000,
      })
      // One chunk of the connection holds more than the events that are read.
      expect(exchange.body.length).to.be.below(200_000)
      expect(sent).to.be.greaterThan(0)
      for (let time = 0; time < 10; time++) expect(exchange.message).to.equal(undefined)
    } finally {
      JSON.parse = parse
    }
    expect(parsed).to.be.within(1_000, 2_000)
  })
})
