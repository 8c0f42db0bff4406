import { readFileSync } from 'node:fs'
import type { RequestListener } from 'node:http'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import type { KitMcpRouter } from '../../../src/mcp/router/router.ts'
import { tableOf } from '../../../src/mcp/router/router.ts'

export const petstore = readFileSync(
  new URL('../../../../test/openapi/data/petstore.yaml', import.meta.url),
  'utf8',
)

type Json = Record<string, any>

/** A document of these paths. */
export function documentOf(paths: Json, rest: Json = {}): Json {
  return { openapi: '3.1.0', info: { title: 'test', version: '1' }, paths, ...rest }
}

export const OK: Json = { 200: { description: 'ok' } }

/** An answer of JSON of this schema. */
export function jsonAnswer(schema: Json | boolean = true): Json {
  return { 200: { description: 'ok', content: { 'application/json': { schema } } } }
}

/** A document of `routes` routes, each with a schema of its own that refers to the next, the last to the first. */
export function largeDocument(routes: number, filler = 0): Json {
  const paths: Json = {}
  const schemas: Json = {}
  for (let index = 0; index < routes; index++) {
    schemas[`Thing${index}`] = {
      type: 'object',
      description: 'x'.repeat(filler),
      properties: {
        id: { type: 'integer', format: 'int64' },
        next: { $ref: `#/components/schemas/Thing${(index + 1) % routes}` },
        ...Object.fromEntries(
          Array.from({ length: 10 }, (_, field) => [`field${field}`, { type: 'string' }]),
        ),
      },
    }
    paths[`/things${index}/{id}`] = {
      get: {
        operationId: `getThing${index}`,
        parameters: [
          { name: 'id', in: 'path', required: true, schema: { type: 'string' } },
          { name: 'fields', in: 'query', schema: { type: 'array', items: { type: 'string' } } },
        ],
        responses: jsonAnswer({ $ref: `#/components/schemas/Thing${index}` }),
      },
    }
  }
  return documentOf(paths, { components: { schemas } })
}

/** The tools of a router, as `tools/list` shows them, with their scopes. */
export function toolsOf(router: KitMcpRouter<any>): Map<string, any> {
  const { tools } = tableOf(router)
  return new Map(
    [...tools].map(([name, { definition, scopes }]) => [
      name,
      { ...JSON.parse(JSON.stringify(definition)), scopes },
    ]),
  )
}

/** A client of the official SDK, connected to `origin`/mcp. */
export async function clientOf(origin: string, token?: string): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' })
  const headers: Record<string, string> = { cookie: 'session=client-cookie' }
  if (token !== undefined) headers.authorization = `Bearer ${token}`
  await client.connect(
    new StreamableHTTPClientTransport(new URL(`${origin}/mcp`), { requestInit: { headers } }),
  )
  return client
}

/** An Express app is a listener. */
export const listener = (app: unknown): RequestListener => app as RequestListener
