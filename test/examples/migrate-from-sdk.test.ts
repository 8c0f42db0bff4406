import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect } from 'chai'
import { type KnownToken, after as migrated, before as original } from '../../examples/migrate-from-sdk.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import { parseChallenge } from '../support/challenge.ts'
import { stopListening } from '../support/listen.ts'
import { call, legacy, send, type WireAnswer, type WireRequest } from '../support/mcp/wire.ts'

const LATER = Math.floor(Date.now() / 1000) + 600
const METADATA = '/.well-known/oauth-protected-resource'

async function lookUp(token: string): Promise<KnownToken | undefined> {
  switch (token) {
    case 'good':
      return { clientId: 'inspector', scopes: ['mcp:read'], expiresAt: LATER }
    case 'poor':
      return { clientId: 'inspector', scopes: ['mcp:list'], expiresAt: LATER }
    case 'old-and-poor':
      return { clientId: 'inspector', scopes: [], expiresAt: 1 }
    case 'eternal':
      return { clientId: 'inspector', scopes: ['mcp:read'] } as unknown as KnownToken
    case 'outage':
      throw new VerifierUnavailableError('the table is locked', { retryAfterSeconds: 3 })
    case 'crash':
      throw new TypeError('a bug')
    default:
      return undefined
  }
}

const asking = (authorization?: string): WireRequest => legacy(call('whoami'), { authorization })

interface Row {
  readonly what: string
  readonly request: WireRequest
  readonly look: (answer: WireAnswer) => unknown
  readonly before: unknown
  readonly after: unknown
}

const challenge = ({ headers }: WireAnswer): Record<string, string> => {
  const header = headers.get('www-authenticate')
  return header === null ? {} : parseChallenge(header)
}
const said = (answer: WireAnswer): unknown => answer.message.result.content[0].text
/** Returns the status and the error of the challenge. */
const outcome = (answer: WireAnswer): string =>
  [answer.status, challenge(answer).error].filter((part) => part !== undefined).join(' ')
const header =
  (name: string) =>
  ({ headers }: WireAnswer): string | null =>
    headers.get(name)
const preflight = {
  method: 'OPTIONS',
  headers: { origin: 'http://localhost:5173', 'access-control-request-method': 'POST' },
}

const SAME: readonly Omit<Row, 'before' | 'after'>[] = [
  { what: 'a good token reaches the same tool', request: asking('Bearer good'), look: said },
  { what: 'a lower-case scheme is one too', request: asking('bearer good'), look: said },
  { what: 'no token', request: asking(), look: outcome },
  { what: 'an unknown token', request: asking('Bearer eve'), look: outcome },
  { what: 'a token without the scope', request: asking('Bearer poor'), look: outcome },
  {
    what: 'the scope that is asked for',
    request: asking('Bearer poor'),
    look: (answer) => challenge(answer).scope,
  },
  {
    what: 'where the metadata document is',
    request: asking(),
    look: (answer) => challenge(answer).resource_metadata,
  },
  {
    what: 'what the document says of the resource',
    request: { method: 'GET', path: `${METADATA}/mcp` },
    look: ({ message: { resource, scopes_supported } }) => ({ resource, scopes_supported }),
  },
]

const DIFFERENT: readonly Row[] = [
  {
    what: 'a token that has expired and lacks the scope',
    request: asking('Bearer old-and-poor'),
    look: outcome,
    before: '403 insufficient_scope',
    after: '401 invalid_token',
  },
  {
    what: 'a verifier that could not find out',
    request: asking('Bearer outage'),
    look: (answer) => [outcome(answer), answer.headers.get('retry-after')],
    before: ['500', null],
    after: ['503', '3'],
  },
  {
    what: 'a verifier with a bug',
    request: asking('Bearer crash'),
    look: outcome,
    before: '500',
    after: '401 invalid_token',
  },
  {
    what: 'a token without an end',
    request: asking('Bearer eternal'),
    look: outcome,
    before: '401 invalid_token',
    after: '200',
  },
  {
    what: 'something behind the token',
    request: asking('Bearer good anything'),
    look: outcome,
    before: '200',
    after: '401 invalid_token',
  },
  {
    what: 'two spaces before the token',
    request: asking('Bearer  good'),
    look: outcome,
    before: '401 invalid_token',
    after: '200',
  },
  {
    what: 'the realm',
    request: asking(),
    look: (answer) => challenge(answer).realm,
    before: undefined,
    after: 'mcp-server',
  },
  {
    what: 'whether a refusal may be cached',
    request: asking(),
    look: header('cache-control'),
    before: null,
    after: 'no-store',
  },
  {
    what: 'the words of the verifier in the answer',
    request: asking('Bearer eve'),
    look: ({ text }) => JSON.parse(text).error_description,
    before: 'Unknown token',
    after: 'The access token is invalid',
  },
  {
    // The request passes the gate, and the server responds.
    what: 'a CORS preflight',
    request: preflight,
    look: outcome,
    before: '401 invalid_token',
    after: '405',
  },
  {
    what: 'the document at the root',
    request: { method: 'GET', path: METADATA },
    look: outcome,
    before: '404',
    after: '200',
  },
  {
    what: 'the document asked for with HEAD',
    request: { method: 'HEAD', path: `${METADATA}/mcp` },
    look: outcome,
    before: '405',
    after: '200',
  },
  {
    what: 'whether the document may be cached',
    request: { method: 'GET', path: `${METADATA}/mcp` },
    look: header('cache-control'),
    before: null,
    after: 'public, max-age=3600',
  },
  {
    what: 'how tokens are to be sent',
    request: { method: 'GET', path: `${METADATA}/mcp` },
    look: ({ message }) => message.bearer_methods_supported,
    before: undefined,
    after: ['header'],
  },
  {
    what: 'a copy of the metadata of the authorization server',
    request: { method: 'GET', path: '/.well-known/oauth-authorization-server' },
    look: outcome,
    before: '200',
    after: '404',
  },
]

describe('the migration from the SDK', () => {
  const servers: Server[] = []
  const ports = { before: 0, after: 0 }

  before(async () => {
    for (const [when, make] of [
      ['before', original],
      ['after', migrated],
    ] as const) {
      const server = createServer().listen(0, '127.0.0.1')
      servers.push(server)
      await once(server, 'listening')
      ports[when] = (server.address() as AddressInfo).port
      // Both servers use the same resource URL, which does not need to match their ports.
      server.on(
        'request',
        make({ issuer: 'https://auth.example.com', resource: 'http://127.0.0.1:3000/mcp', lookUp }),
      )
    }
  })
  after(() => Promise.all(servers.map(stopListening)))

  for (const { what, request, look } of SAME) {
    it(`the migration does not change ${what}`, async () => {
      const [then, now] = await Promise.all([send(ports.before, request), send(ports.after, request)])
      expect(look(now)).to.deep.equal(look(then)).and.not.equal(undefined)
    })
  }

  for (const { what, request, look, before, after } of DIFFERENT) {
    it(`the migration changes ${what} from ${JSON.stringify(before)} to ${JSON.stringify(after)}`, async () => {
      expect(look(await send(ports.before, request))).to.deep.equal(before)
      expect(look(await send(ports.after, request))).to.deep.equal(after)
    })
  }
})
