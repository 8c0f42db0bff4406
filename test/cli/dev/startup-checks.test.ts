import { expect } from 'chai'
import {
  fetchResourceMetadata,
  type Listening,
  type ResourceMetadata,
  startupWarnings,
} from '../../../cli/dev/startup-checks.ts'
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

  for (const [what, metadata, listening, text] of [
    ['another port', document({ resource: 'http://127.0.0.1:8080/mcp' }), here, 'listens on port 3000'],
    [
      'localhost instead of 127.0.0.1',
      document({ resource: 'http://localhost:3000/mcp' }),
      here,
      'Set resource to http://127.0.0.1:3000/mcp',
    ],
    [
      '127.0.0.1 instead of ::1',
      document(),
      { address: '::1', port: 3000 },
      'Set resource to http://[::1]:3000/mcp',
    ],
    [
      'a resource on another machine',
      document({ resource: 'https://mcp.example.com/mcp' }),
      here,
      'not on this machine',
    ],
    ['another issuer', document({ authorizationServers: ['https://a.example'] }), here, 'MCP_GATEKIT_ISSUER'],
    [
      'localhost in the issuer',
      document({ authorizationServers: ['http://localhost:4984'] }),
      here,
      'compare issuers as strings',
    ],
  ] as const) {
    it(`startupWarnings() names the fix for ${what}`, () => {
      const warnings = startupWarnings(metadata, listening, ISSUER)
      expect(warnings).to.have.length(1)
      expect(warnings[0]).to.contain(text)
    })
  }
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
