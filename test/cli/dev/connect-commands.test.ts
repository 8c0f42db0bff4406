import { expect } from 'chai'
import fc from 'fast-check'
import { connectTo } from '../../../cli/dev/connect-commands.ts'

describe('connectTo()', () => {
  it('connectTo() returns a command for each client', () => {
    const url = 'http://127.0.0.1:3000/mcp'
    expect(connectTo(url)).to.deep.equal({
      url,
      commands: [
        { client: 'Claude Code', command: `claude mcp add --transport http dev ${url}` },
        { client: 'Codex', command: `codex mcp add dev --url ${url}` },
        {
          client: 'MCP Inspector',
          command: `npx @modelcontextprotocol/inspector --cli ${url} --transport http --method tools/list`,
        },
        { client: 'Doctor', command: `npx mcp-gatekit doctor ${url} --login` },
      ],
    })
  })

  it('connectTo() quotes the brackets of an IPv6 address', () => {
    const [first] = connectTo('http://[::1]:3000/mcp')?.commands ?? []
    expect(first?.command).to.match(/ 'http:\/\/\[::1\]:3000\/mcp'$/)
  })

  for (const resource of [
    undefined,
    '',
    'mcp',
    'https://mcp.example.com/mcp',
    'http://127.0.0.1:3000/mcp;curl',
    'http://127.0.0.1:3000/$(id)',
    'http://127.0.0.1:3000/mcp?a&b',
    "http://127.0.0.1:3000/'",
    'http://127.0.0.1:3000/mcp\nid',
    'http://user@127.0.0.1:3000/mcp',
  ])
    it(`connectTo() returns nothing for ${JSON.stringify(resource)}`, () =>
      expect(connectTo(resource)).to.equal(undefined))

  it('connectTo() never returns a command with a character that a shell treats in a special way', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (rest) => {
        for (const { command } of connectTo(`http://127.0.0.1:3000/${rest}`)?.commands ?? [])
          expect(command).to.match(/^[\w\s@.:/%~-]+$/)
      }),
    )
  })
})
