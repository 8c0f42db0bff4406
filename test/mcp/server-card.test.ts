import { expect } from 'chai'
import fc from 'fast-check'
import { cardName, catalogIdentifier, serverCard } from '../../src/mcp/server-card.ts'
import { anyCharacter } from '../support/any-character.ts'
import { CARDS, problemsOfCard } from '../support/mcp/discovery-schemas.ts'
import { runs } from '../support/runs.ts'

describe('the server card', () => {
  for (const [what, isValid, card] of CARDS) {
    it(`the schema of the tests ${isValid ? 'allows' : 'rejects'} ${what}`, () => {
      expect(problemsOfCard(card).length === 0).to.equal(isValid)
    })
  }

  const names: readonly (readonly [name: string, host: string, expected: string])[] = [
    ['com.acme/notes', 'mcp.example.com', 'com.acme/notes'],
    ['a/b', 'mcp.example.com', 'a/b'],
    ['notes', 'mcp.example.com', 'com.example.mcp/notes'],
    ['My Notes!', 'mcp.example.com', 'com.example.mcp/My-Notes-'],
    ['acme/notes/v2', 'mcp.example.com', 'com.example.mcp/acme-notes-v2'],
    ['/notes', 'mcp.example.com', 'com.example.mcp/-notes'],
    ['com_acme/notes', 'mcp.example.com', 'com.example.mcp/com_acme-notes'],
    ['näh 🧵', 'example.com', 'com.example/n-h--'],
    ['notes', 'localhost', 'localhost/notes'],
    ['notes', '127.0.0.1', '1.0.0.127/notes'],
    ['notes', '[::1]', '-::1-/notes'.replaceAll(':', '-')],
    ['notes', 'example.com.', 'com.example/notes'],
    ['notes', 'a_b.example.com', 'com.example.a-b/notes'],
    ['x'.repeat(300), 'example.com', `com.example/${'x'.repeat(188)}`],
    ['notes', `${'a.'.repeat(120)}example.com`, `${`com.example${'.a'.repeat(120)}`.slice(0, 100)}/notes`],
  ]
  for (const [name, host, expected] of names) {
    it(`the name of ${JSON.stringify(name.slice(0, 20))} at ${host.slice(0, 20)} is ${expected.slice(0, 40)}`, () => {
      expect(cardName({ name, version: '1' }, host, {})).to.equal(expected)
    })
  }

  it('an identifier has the host and the part of the name behind the slash', () => {
    expect(catalogIdentifier('com.acme/notes', 'mcp.example.com')).to.equal(
      'urn:air:mcp.example.com:mcp:notes',
    )
    expect(catalogIdentifier('localhost/notes', '[::1]')).to.equal('urn:air:---1-:mcp:notes')
  })

  const of = (serverInfo: object, values = {}) =>
    serverCard(
      { name: 'notes', version: '1.0.0', ...serverInfo },
      'https://a.example/mcp',
      'a.example',
      ['2'],
      values,
    )

  const members: readonly (readonly [what: string, serverInfo: object, expected: object])[] = [
    ['description comes first', { title: 'T', description: 'D' }, { description: 'D', title: 'T' }],
    ['title is the next description', { title: 'T' }, { description: 'T', title: 'T' }],
    ['name is the last description', {}, { description: 'notes' }],
    [
      'an empty description and title count as missing',
      { title: '', description: '' },
      { description: 'notes' },
    ],
    [
      'a description is cut to 100 characters',
      { description: 'x'.repeat(101) },
      { description: 'x'.repeat(100) },
    ],
    [
      'a character of two units is not cut in the middle',
      { description: `${'x'.repeat(99)}🧵` },
      { description: 'x'.repeat(99) },
    ],
    ['a title is cut to 100 characters', { title: 'x'.repeat(101) }, { title: 'x'.repeat(100) }],
    ['a version is cut to 255 characters', { version: '1'.repeat(256) }, { version: '1'.repeat(255) }],
    [
      'a website is named',
      { websiteUrl: 'https://a.example/?a=%20#b' },
      { websiteUrl: 'https://a.example/?a=%20#b' },
    ],
    [
      'icons keep the members of the schema',
      {
        icons: [
          { src: 'data:image/png;base64,AA==', mimeType: 'image/png', sizes: ['any'], theme: 'dark', x: 1 },
        ],
      },
      {
        icons: [{ src: 'data:image/png;base64,AA==', mimeType: 'image/png', sizes: ['any'], theme: 'dark' }],
      },
    ],
    [
      'members of icons that the schema does not allow are left out',
      {
        icons: [
          { src: 'https://a.example/i', mimeType: 5, sizes: [5], theme: 'blue' },
          { src: 'i.png' },
          null,
          'x',
        ],
      },
      { icons: [{ src: 'https://a.example/i' }] },
    ],
  ]
  for (const [what, serverInfo, expected] of members)
    it(`in a card, ${what}`, () => expect(of(serverInfo)).to.deep.include(expected))

  for (const websiteUrl of [
    '',
    'a.example',
    '/docs',
    'https://a.example/ x',
    'https://a.example/|',
    'https://a.example/%',
    'https://[::1]/',
    'https://a.example/#a#b',
    5,
    null,
  ]) {
    it(`a card leaves out the website ${JSON.stringify(websiteUrl)}, which is not a URI`, () => {
      expect(of({ websiteUrl })).not.to.have.property('websiteUrl')
    })
  }

  it('a card contains the endpoint with its protocol versions, and nothing about tools', () => {
    expect(of({})).to.deep.equal({
      $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
      name: 'example.a/notes',
      version: '1.0.0',
      description: 'notes',
      remotes: [{ type: 'streamable-http', url: 'https://a.example/mcp', supportedProtocolVersions: ['2'] }],
    })
  })

  it('a card is valid for any serverInfo', () => {
    const text = fc.oneof(fc.string({ unit: anyCharacter, maxLength: 300 }), fc.webUrl())
    const name = fc.string({ unit: anyCharacter, minLength: 1, maxLength: 300 })
    const info = fc.record(
      {
        name,
        version: name,
        title: text,
        description: text,
        websiteUrl: text,
        icons: fc.array(
          fc.record(
            { src: text, mimeType: fc.anything(), sizes: fc.anything(), theme: fc.anything() },
            { requiredKeys: [] },
          ),
        ),
      },
      { requiredKeys: ['name', 'version'] },
    )
    const host = fc.oneof(
      fc.domain(),
      fc.ipV4(),
      fc.ipV6().map((ip) => `[${ip}]`),
    )
    fc.assert(
      fc.property(info, host, (serverInfo, hostname) => {
        const card = serverCard(serverInfo as never, `https://${hostname}/mcp`, hostname, ['2025-11-25'], {})
        expect(problemsOfCard(JSON.parse(JSON.stringify(card)))).to.deep.equal([])
      }),
      { numRuns: runs(1_000) },
    )
  })
})
