import { expect } from 'chai'
import { fixFor } from '../../cli/doctor/finding.ts'
import { sendRequest } from '../../cli/doctor/http-exchange.ts'
import { Recording } from '../support/cli/recording.ts'
import { listen } from '../support/listen.ts'

const CHALLENGE = 'Bearer error="invalid_token", error_description="The token has expired"'
const JWT = `eyJhbGciOiJFUzI1NiJ9.${'eyJzdWIiOiJhZGEifQ'.repeat(3)}.${'c2ln'.repeat(20)}`

/** Responses that doctor quotes. */
const RESPONSES: readonly (readonly [status: number, type: string, body: unknown])[] = [
  [200, 'application/json', { title: 'Notes', message: 'Hello' }],
  [200, 'application/json', rpc(-32_601, 'No such method')],
  [204, '', ''],
  [401, 'application/json', { error: 'x' }],
  [400, 'application/json', { error: 'invalid_grant', error_description: 'Used' }],
  [400, 'application/json', rpc(-32_700, 'Parse error')],
  [400, 'application/json', { jsonrpc: '2.0', id: 1, error: { code: -32_022 } }],
  [403, 'application/problem+json', { title: 'Forbidden', detail: 'No entry' }],
  [403, 'application/problem+json', { title: 'Forbidden' }],
  [403, 'application/json', { statusCode: 403, message: 'Forbidden resource', error: 'Forbidden' }],
  [422, 'application/json', { code: 5 }],
  [500, 'text/plain', 'Oops\n\u001b[31mat\u0007 line 1'],
  [
    502,
    'text/html',
    '<html><head><title>Bad Gateway</title><style>p { color: red }</style></head><body><p>nginx',
  ],
  [500, 'text/html', '<!-- -->'],
  [500, 'text/plain', `refused ${JWT}, retry`],
  [500, 'text/plain', `refused ${JWT.slice(0, 60)}`],
  [500, 'text/plain', 'x'.repeat(10_000)],
]

function rpc(code: number, message: string) {
  return { jsonrpc: '2.0', id: 1, error: { code, message } }
}

describe('HttpExchange', () => {
  const recording = new Recording('responses')
  for (const [status, type, body] of RESPONSES) {
    const text = typeof body === 'string' ? body : JSON.stringify(body)
    const given = `${status} ${type} ${JSON.stringify(text.slice(0, 120))}`
    it(`sums up the response ${given} as recorded`, async () => {
      const { origin } = await listen((_req, res) => {
        if (status === 401) res.setHeader('www-authenticate', CHALLENGE)
        if (type !== '') res.setHeader('content-type', type)
        res.writeHead(status).end(text)
      })
      const outgoing = { method: 'GET', url: new URL(origin), headers: {}, timeoutMs: 5_000 }
      recording.compare(given, (await sendRequest(outgoing)).summary)
    })
  }

  it('joins several lines of a header', async () => {
    const { origin } = await listen((_req, res) => {
      res.setHeader('www-authenticate', ['Basic realm="a"', 'Bearer error="x"']).writeHead(401).end()
    })
    const response = await sendRequest({ method: 'GET', url: new URL(origin), headers: {}, timeoutMs: 5_000 })
    expect(response.header('www-authenticate')).to.equal('Basic realm="a", Bearer error="x"')
    expect(response.header('x-missing')).to.equal(undefined)
  })
})

describe('fixFor()', () => {
  for (const [words, fix] of [
    ['Forbidden: this Origin or Host is not allowed', /allowedHosts/],
    ['Invalid Host: a.example', /allowedHosts/],
    ['Invalid Origin header', /allowedOrigins/],
    ['Parse error: the body is not valid JSON', /express\.json\(\)/],
    ['The request body was read before it reached the MCP endpoint', /express\.json\(\)/],
    ['InternalServerError: stream is not readable', /express\.json\(\)/],
    ['Bad Request: Mcp-Session-Id header is required', /^accept an initialize request/],
    ['Bad Request: No valid session ID provided', /^accept an initialize request/],
    ['Bad Request: Server not initialized', /^accept an initialize request/],
    ['Invalid Request: Server already initialized', /^create a transport/],
    ['Not Acceptable: Client must accept text/event-stream', /Accept header/],
  ] as const)
    it(`knows the fix for "${words}"`, () => expect(fixFor(`400: "${words}"`)).to.match(fix))

  for (const seen of ['400: "The access token has expired"', '403 for Host: a.example, which is not allowed'])
    it(`knows no fix for ${seen}`, () => expect(fixFor(seen)).to.equal(undefined))
})
