import { expect } from 'chai'
import {
  fetchResourceMetadata,
  type Listening,
  type ResourceMetadata,
  startupWarnings,
} from '../../../cli/dev/startup-checks.ts'
import { Recording } from '../../support/cli/recording.ts'
import { listen } from '../../support/listen.ts'

const ISSUER = 'http://127.0.0.1:4984'
const here: Listening = { address: '127.0.0.1', port: 3000 }
const document = (changes: Partial<ResourceMetadata> = {}): ResourceMetadata => ({
  resource: 'http://127.0.0.1:3000/mcp',
  authorizationServers: [ISSUER],
  scopes: [],
  ...changes,
})

describe('startupWarnings()', () => {
  for (const [what, metadata, listening, issuer] of [
    ['the same address', document(), here, ISSUER],
    ['a server on every address', document(), { address: '::', port: 3000 }, ISSUER],
    [
      'localhost on every address',
      document({ resource: 'http://localhost:3000/mcp' }),
      { address: '0.0.0.0', port: 3000 },
      ISSUER,
    ],
    ['IPv6', document({ resource: 'http://[::1]:3000/mcp' }), { address: '::1', port: 3000 }, ISSUER],
    ['the issuer with a slash', document({ authorizationServers: [`${ISSUER}/`] }), here, ISSUER],
    [
      'no authorization server of dev',
      document({ authorizationServers: ['https://a.example'] }),
      here,
      undefined,
    ],
    ['no resource', document({ resource: undefined }), here, ISSUER],
    ['a resource that is not a URL', document({ resource: 'mcp' }), here, ISSUER],
  ] as const) {
    it(`startupWarnings() has none for ${what}`, () =>
      expect(startupWarnings(metadata, listening, issuer)).to.deep.equal([]))
  }

  const recording = new Recording('startup-warnings')
  for (const [what, metadata, listening] of [
    ['another port', document({ resource: 'http://127.0.0.1:8080/mcp' }), here],
    ['localhost instead of 127.0.0.1', document({ resource: 'http://localhost:3000/mcp' }), here],
    ['127.0.0.1 instead of ::1', document(), { address: '::1', port: 3000 }],
    ['a resource on another machine', document({ resource: 'https://mcp.example.com/mcp' }), here],
    ['another issuer', document({ authorizationServers: ['https://a.example'] }), here],
    ['localhost in the issuer', document({ authorizationServers: ['http://localhost:4984'] }), here],
  ] as const)
    it(`startupWarnings() has the recorded warning for ${what}`, () =>
      recording.compare(what, startupWarnings(metadata, listening, ISSUER).join('\n')))
})

describe('fetchResourceMetadata()', () => {
  const body = { resource: 'http://127.0.0.1:1/mcp', authorization_servers: [ISSUER, 5, 'x'.repeat(999)] }
  for (const [what, status, text, expected] of [
    [
      'reads the document',
      200,
      JSON.stringify(body),
      { resource: body.resource, authorizationServers: [ISSUER, 'x'.repeat(256)], scopes: [] },
    ],
    [
      'reads a document without members',
      200,
      '{}',
      { resource: undefined, authorizationServers: [], scopes: [] },
    ],
    ['returns undefined for another status', 404, JSON.stringify(body), undefined],
    ['returns undefined for invalid JSON', 200, '<html>', undefined],
    ['returns undefined for null', 200, 'null', undefined],
    ['returns undefined for a document that is too large', 200, ' '.repeat(70_000), undefined],
  ] as const) {
    it(`fetchResourceMetadata() ${what}`, async () => {
      const { port } = await listen((_req, res) => res.writeHead(status).end(text))
      expect(await fetchResourceMetadata({ address: '127.0.0.1', port })).to.deep.equal(expected)
    })
  }
})
