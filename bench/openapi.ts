import { Agent, createServer, get, type RequestListener } from 'node:http'
import express from 'express'
import { z } from 'zod'
import { mcpHandler } from '../src/express/mcp-handler.ts'
import { createMcpAdapter } from '../src/mcp/adapter.ts'
import { KitMcpRouter, tableOf } from '../src/mcp/router/router.ts'
import { toolsFromOpenApi } from '../src/openapi/index.ts'
import { type Contestant, listen } from './contestants.ts'
import { type LoadFigures, measureLoad } from './load.ts'
import { printRatios } from './report.ts'

const DOCUMENT = {
  openapi: '3.1.0',
  info: { title: 'bench', version: '1' },
  paths: {
    '/pets/{id}': {
      get: {
        operationId: 'getPet',
        parameters: [{ name: 'id', in: 'path', required: true, schema: { type: 'integer' } }],
        responses: {
          200: { description: 'ok', content: { 'application/json': { schema: { type: 'object' } } } },
        },
      },
    },
  },
}

function routes(): RequestListener {
  const app = express()
  app.get('/pets/:id', (req, res) => void res.json({ id: Number(req.params.id), name: 'Rex' }))
  return app as unknown as RequestListener
}

const input = z.object({ id: z.number() })

const serve = (router: KitMcpRouter) =>
  createServer(mcpHandler(createMcpAdapter({ router })) as RequestListener)

/** One tool that calls one route in different ways. */
export const contestants: Record<string, Contestant> = {
  'a tool that calls the route with fetch': async () => {
    const port = await listen(createServer(routes()))
    const router = KitMcpRouter.create().tool('getPet', { description: 'Pet', input }, async ({ id }) =>
      (await fetch(`http://127.0.0.1:${port}/pets/${id}`)).text(),
    )
    return serve(router)
  },
  'toolsFromOpenApi, app in process': async () => serve(await toolsFromOpenApi(DOCUMENT, { app: routes() })),
  'toolsFromOpenApi, baseUrl': async () => {
    const port = await listen(createServer(routes()))
    return serve(await toolsFromOpenApi(DOCUMENT, { baseUrl: `http://127.0.0.1:${port}` }))
  },
}

/** The number of rounds that are not counted. */
const WARM_UP = 10

/** (f) Measures a route that is called as a tool. */
export async function benchOpenApi(): Promise<void> {
  const figures = await measureLoad({
    module: new URL(import.meta.url),
    path: '/mcp',
    names: Object.keys(contestants),
    request: {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'getPet', arguments: { id: 7 } },
      }),
    },
    expectStatus: 200,
    rounds: 5,
  })
  printRatios(
    '(f) a route as a tool',
    figures.rounds,
    'a tool that calls the route with fetch',
    'requests/s',
    figures.cpu,
  )
  const { rounds, cpu } = await oneByOne()
  printRatios('(f) one call after the other, MCP left out', rounds, 'the route over loopback', 'ns', cpu)
}

/**
 * Measures one call after the other: the route itself, and the handler of its tool. Everything runs in this process, so
 * that CPU time includes client and server. Many short rounds keep single disturbances out of the median.
 */
async function oneByOne(rounds = 60, calls = 100): Promise<LoadFigures> {
  const server = createServer(routes())
  const path = `http://127.0.0.1:${await listen(server)}/pets/7`
  const agent = new Agent({ keepAlive: true })
  const tool = tableOf(await toolsFromOpenApi(DOCUMENT, { app: routes() })).tools.get('getPet')
  const context = { signal: new AbortController().signal } as Parameters<
    NonNullable<typeof tool>['handler']
  >[1]
  const ways: Record<string, () => Promise<unknown>> = {
    'the route over loopback': () =>
      new Promise((resolve) => {
        get(path, { agent }, (res) => res.setEncoding('utf8').toArray().then(resolve))
      }),
    'its tool of toolsFromOpenApi, app in process': async () => await tool?.handler({ id: 7 }, context),
  }
  const empty = () => Object.fromEntries(Object.keys(ways).map((name) => [name, [] as number[]]))
  const figures: LoadFigures = { rounds: empty(), cpu: empty() }
  for (let round = -WARM_UP; round < rounds; round++) {
    const turns = Object.entries(ways)
    // The order alternates, so that the garbage of one is not always collected in the time of the other.
    for (const [name, way] of round % 2 === 0 ? turns : turns.reverse()) {
      const usedBefore = process.cpuUsage()
      const startedAt = process.hrtime.bigint()
      for (let call = 0; call < calls; call++) await way()
      if (round < 0) continue
      figures.rounds[name]?.push(Number(process.hrtime.bigint() - startedAt) / calls)
      const { user, system } = process.cpuUsage(usedBefore)
      figures.cpu[name]?.push((user + system) / calls)
    }
  }
  agent.destroy()
  server.close()
  return figures
}
