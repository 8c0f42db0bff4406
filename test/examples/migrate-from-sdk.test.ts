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

/** A response, and what it shows without and with this package. */
type Row = readonly [
  what: string,
  request: WireRequest,
  look: (answer: WireAnswer) => unknown,
  before?: unknown,
  after?: unknown,
]

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

const SAME: readonly Row[] = [
  ['a good token reaches the same tool', asking('Bearer good'), said],
  ['a lower-case scheme is one too', asking('bearer good'), said],
  ['no token', asking(), outcome],
  ['an unknown token', asking('Bearer eve'), outcome],
  ['a token without the scope', asking('Bearer poor'), outcome],
  ['the scope that is asked for', asking('Bearer poor'), (answer) => challenge(answer).scope],
  ['where the metadata document is', asking(), (answer) => challenge(answer).resource_metadata],
  [
    'what the document says of the resource',
    { method: 'GET', path: `${METADATA}/mcp` },
    ({ message: { resource, scopes_supported } }) => ({ resource, scopes_supported }),
  ],
]

const DIFFERENT: readonly Row[] = [
  [
    'a token that has expired and lacks the scope',
    asking('Bearer old-and-poor'),
    outcome,
    '403 insufficient_scope',
    '401 invalid_token',
  ],
  [
    'a verifier that could not find out',
    asking('Bearer outage'),
    (answer) => [outcome(answer), answer.headers.get('retry-after')],
    ['500', null],
    ['503', '3'],
  ],
  ['a verifier with a bug', asking('Bearer crash'), outcome, '500', '401 invalid_token'],
  ['a token without an end', asking('Bearer eternal'), outcome, '401 invalid_token', '200'],
  ['something behind the token', asking('Bearer good anything'), outcome, '200', '401 invalid_token'],
  ['two spaces before the token', asking('Bearer  good'), outcome, '401 invalid_token', '200'],
  ['the realm', asking(), (answer) => challenge(answer).realm, undefined, 'mcp-server'],
  ['whether a refusal may be cached', asking(), header('cache-control'), null, 'no-store'],
  [
    'the words of the verifier in the answer',
    asking('Bearer eve'),
    ({ text }) => JSON.parse(text).error_description,
    'Unknown token',
    'The access token is invalid',
  ],
  ['a CORS preflight', preflight, outcome, '401 invalid_token', '405'],
  ['the document at the root', { method: 'GET', path: METADATA }, outcome, '404', '200'],
  ['the document asked for with HEAD', { method: 'HEAD', path: `${METADATA}/mcp` }, outcome, '405', '200'],
  [
    'whether the document may be cached',
    { method: 'GET', path: `${METADATA}/mcp` },
    header('cache-control'),
    null,
    'public, max-age=3600',
  ],
  [
    'how tokens are to be sent',
    { method: 'GET', path: `${METADATA}/mcp` },
    ({ message }) => message.bearer_methods_supported,
    undefined,
    ['header'],
  ],
  [
    'a copy of the metadata of the authorization server',
    { method: 'GET', path: '/.well-known/oauth-authorization-server' },
    outcome,
    '200',
    '404',
  ],
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

  for (const [what, request, look] of SAME) {
    it(`the migration does not change ${what}`, async () => {
      const [then, now] = await Promise.all([send(ports.before, request), send(ports.after, request)])
      expect(look(now)).to.deep.equal(look(then)).and.not.equal(undefined)
    })
  }

  for (const [what, request, look, before, after] of DIFFERENT) {
    it(`the migration changes ${what} from ${JSON.stringify(before)} to ${JSON.stringify(after)}`, async () => {
      expect(look(await send(ports.before, request))).to.deep.equal(before)
      expect(look(await send(ports.after, request))).to.deep.equal(after)
    })
  }
})
