import { expect } from 'chai'
import { createMcpAdapter, type KitMcpRouter, mcpHandler } from 'mcp-gatekit'
import { importGuide } from '../support/examples/guide.ts'
import { onNode, type Served } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import { bearer, modern } from '../support/mcp/wire.ts'

/** The users by token. */
const USERS: Readonly<Record<string, { id: string; claims: object } | undefined>> = {
  ada: { id: 'ada', claims: { tenant: 'acme' } },
  bob: { id: 'bob', claims: { tenant: 'globex' } },
  eve: { id: 'eve', claims: { tenant: 5 } },
  job: undefined,
}

describe('the examples of the guide to middleware', () => {
  const served = new Map<string, Served>()

  before(async () => {
    const examples = await importGuide<{ router: KitMcpRouter }>('docs/guides/middleware.md')
    for (const [heading, { router }] of examples) {
      const verifyToken = ({ bearerToken = '' }) => ({
        valid: true as const,
        user: USERS[bearerToken],
        clientId: 'desktop',
        scopes: ['mcp:read'],
      })
      const adapter = createMcpAdapter({ router, oauth: oauth({ verifyToken }) })
      served.set(heading, await onNode(mcpHandler(adapter)))
    }
  })
  after(async () => {
    for (const server of served.values()) await server.close()
  })

  async function call(heading: string, user: string, name: string, args = {}): Promise<any> {
    const server = served.get(heading) ?? expect.fail(`the guide has no example below ${heading}`)
    const { message } = await server.send(modern('tools/call', { name, arguments: args }, bearer(user)))
    return message.result
  }
  const textOf = (result: { content: { text: string }[] }): string | undefined => result.content[0]?.text

  it('every example of the guide is tested below', () => {
    expect([...served.keys()]).to.deep.equal([
      'Middleware',
      'Cache the results of read-only tools',
      'Redact results',
      'Set the tenant from the token',
    ])
  })

  it('the first example logs the time of each call', async () => {
    const { log } = console
    const lines: unknown[] = []
    console.log = (line) => lines.push(line)
    try {
      expect(textOf(await call('Middleware', 'ada', 'ping'))).to.equal('pong')
    } finally {
      console.log = log
    }
    expect(lines).to.have.length(1)
    expect(lines[0]).to.match(/^tool ping took \d+ ms$/)
  })

  it('the cache returns the same result to the same user for the same arguments only', async () => {
    const search = async (user: string, text: string) =>
      textOf(await call('Cache the results of read-only tools', user, 'search', { text }))
    const first = await search('ada', 'tea')
    expect(first).to.match(/^No note contains tea/)
    expect(await search('ada', 'tea')).to.equal(first)
    expect(await search('ada', 'milk')).to.match(/^No note contains milk/)
    expect(await search('bob', 'tea')).to.not.equal(first)
  })

  it('the cache does not keep results for a token without a user', async () => {
    const search = async () =>
      textOf(await call('Cache the results of read-only tools', 'job', 'search', { text: 'tea' }))
    expect(await search()).to.not.equal(await search())
  })

  it('the redaction removes the password from the structured content and from the text', async () => {
    const result = await call('Redact results', 'ada', 'account')
    expect(result.structuredContent.name).to.equal('Ada')
    expect(JSON.parse(String(textOf(result)))).to.deep.equal(result.structuredContent)
    expect(JSON.stringify(result)).to.not.contain('secret')
  })

  it('the tenant of the token reaches the handler, also if two users call at the same time', async () => {
    const tenants = ['ada', 'bob'].map((user) => call('Set the tenant from the token', user, 'whoami'))
    expect((await Promise.all(tenants)).map(textOf)).to.deep.equal(['acme', 'globex'])
  })

  it('a token without a tenant is denied with a message', async () => {
    for (const user of ['eve', 'job']) {
      const result = await call('Set the tenant from the token', user, 'whoami')
      expect(result.isError).to.equal(true)
      expect(textOf(result)).to.equal('Your account does not belong to a tenant.')
    }
  })
})
