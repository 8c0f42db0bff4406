import { once } from 'node:events'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { aiCatalog, createMcpAdapter, KitMcpRouter, type McpAdapter, mcpServer } from '../../src/index.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { problemsOfCatalog } from '../support/mcp/discovery-schemas.ts'

const CATALOG = '/.well-known/ai-catalog.json'

const adapterFor = (name: string, resource?: string) =>
  createMcpAdapter({
    router: KitMcpRouter.create(),
    serverInfo: { name, version: '1.0.0' },
    ...(resource !== undefined && { oauth: oauthOptions({ resource }) }),
  })

const urlsIn = (catalog: any): string[] => catalog.entries.map(({ url }: { url: string }) => url)

describe('aiCatalog()', () => {
  it('aiCatalog() in front of several servers serves the entries of all, which are found there', async () => {
    const [notes, tasks] = [adapterFor('notes'), adapterFor('tasks')]
    const app = express()
      .use(aiCatalog([notes, tasks]) as RequestHandler)
      .use(mcpServer(notes, { path: '/notes' }) as RequestHandler)
      .use(mcpServer(tasks, { path: '/tasks', discovery: { name: 'com.acme/jobs' } }) as RequestHandler)
    const { origin } = await listen(app)
    const response = await fetch(origin + CATALOG)
    expect(response.headers.get('cache-control')).to.equal('no-store')
    expect(response.headers.get('content-type')).to.equal('application/ai-catalog+json')
    const catalog = (await response.json()) as any
    expect(problemsOfCatalog(catalog)).to.deep.equal([])
    expect(urlsIn(catalog)).to.deep.equal([`${origin}/notes/server-card`, `${origin}/tasks/server-card`])
    expect(catalog.entries.map(({ identifier }: { identifier: string }) => identifier)).to.deep.equal([
      'urn:air:127.0.0.1:mcp:notes',
      'urn:air:127.0.0.1:mcp:jobs',
    ])
    for (const url of urlsIn(catalog)) expect((await fetch(url)).status).to.equal(200)
  })

  const RESOURCES = ['https://a.example.com/mcp', 'https://b.example.com/mcp']

  it('the catalog of fixed resources is public and has an ETag; one derived resource makes it uncached', async () => {
    const fixed = RESOURCES.map((resource) => adapterFor('notes', resource))
    const { origin } = await listen(express().use(aiCatalog(fixed) as RequestHandler))
    const response = await fetch(origin + CATALOG)
    expect(response.headers.get('cache-control')).to.equal('public, max-age=3600')
    expect(urlsIn(await response.json())).to.deep.equal(
      RESOURCES.map((resource) => `${resource}/server-card`),
    )
    const etag = String(response.headers.get('etag'))
    expect((await fetch(origin + CATALOG, { headers: { 'if-none-match': etag } })).status).to.equal(304)
    const mixed = await listen(express().use(aiCatalog([...fixed, adapterFor('tasks')]) as RequestHandler))
    expect((await fetch(mixed.origin + CATALOG)).headers.get('cache-control')).to.equal('no-store')
  })

  it('a server with discovery: false is left out', async () => {
    const [notes, tasks] = [adapterFor('notes'), adapterFor('tasks')]
    const app = express()
      .use(aiCatalog([notes, tasks]) as RequestHandler)
      .use(mcpServer(notes, { path: '/notes', discovery: false }) as RequestHandler)
      .use(mcpServer(tasks, { path: '/tasks', discovery: { catalog: false } }) as RequestHandler)
    const { origin } = await listen(app)
    expect(urlsIn(await (await fetch(origin + CATALOG)).json())).to.deep.equal([
      `${origin}/tasks/server-card`,
    ])
  })

  it('of two servers with the same identifier the first one counts, and one warning names the options', async () => {
    const warnings: string[] = []
    const onWarning = ({ name, message }: Error) => {
      if (name === 'KitMcpWarning') warnings.push(message)
    }
    process.on('warning', onWarning)
    try {
      const [notes, others] = [adapterFor('notes'), adapterFor('notes')]
      const app = express()
        .use(aiCatalog([notes, others]) as RequestHandler)
        .use(mcpServer(notes, { path: '/notes' }) as RequestHandler)
        .use(mcpServer(others, { path: '/others' }) as RequestHandler)
      const { origin } = await listen(app)
      for (let times = 0; times < 3; times++)
        expect(urlsIn(await (await fetch(origin + CATALOG)).json())).to.deep.equal([
          `${origin}/notes/server-card`,
        ])
      const ended = once(process, 'warning')
      process.emitWarning('end')
      await ended
      expect(warnings).to.have.length(1)
      expect(warnings[0]).to.match(
        /"urn:air:127\.0\.0\.1:mcp:notes".*serverInfo\.name.*discovery\.identifier/,
      )
    } finally {
      process.off('warning', onWarning)
    }
  })

  it('aiCatalog() passes other requests on, and responds to other methods with 405', async () => {
    const app = express().use(
      aiCatalog([adapterFor('notes')]) as RequestHandler,
      (_req, res) => void res.sendStatus(418),
    )
    const { origin } = await listen(app)
    expect((await fetch(`${origin}/mcp`)).status).to.equal(418)
    expect((await fetch(`${origin}/x${CATALOG}`)).status).to.equal(418)
    expect((await fetch(origin + CATALOG, { method: 'POST' })).status).to.equal(405)
    expect((await fetch(origin + CATALOG, { method: 'OPTIONS' })).status).to.equal(204)
  })

  for (const [what, adapters] of [
    ['an adapter without an array', adapterFor('notes')],
    ['an empty array', []],
    ['something else in the array', [adapterFor('notes'), {}]],
    ['nothing', undefined],
  ] as const) {
    it(`aiCatalog() throws for ${what}`, () => {
      expect(() => aiCatalog(adapters as readonly McpAdapter[])).to.throw(
        /^adapters must be an array of return values/,
      )
    })
  }
})
