import { once } from 'node:events'
import { IncomingMessage, type RequestListener, ServerResponse } from 'node:http'
import { createServer as createRaw } from 'node:net'
import type { Client } from '@modelcontextprotocol/client'
import { expect } from 'chai'
import express from 'express'
// @ts-expect-error no types of its own
import express4 from 'express4'
import { KitMcpServer, mcpAuth, mcpHandler } from '../../src/index.ts'
import { type OpenApiToolOptions, toolsFromOpenApi } from '../../src/openapi/index.ts'
import { freePort } from '../support/free-port.ts'
import { oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'
import { type Signalled, signalled } from '../support/mcp/wire.ts'
import { clientOf, documentOf, jsonAnswer, OK } from '../support/openapi/documents.ts'

const PET = {
  type: 'object',
  required: ['id', 'name'],
  properties: { id: { type: 'integer' }, name: { type: 'string' } },
}
const json = (schema: object) => ({ content: { 'application/json': { schema } } })
const param = (name: string, where = 'query', schema: object = { type: 'string' }) => ({
  name,
  in: where,
  schema,
  ...(where === 'path' && { required: true }),
})
const get = (operationId: string, rest: object = {}) => ({ get: { operationId, responses: OK, ...rest } })

/** The description of the routes below. */
const document = documentOf(
  {
    '/pets': {
      get: { operationId: 'listPets', responses: jsonAnswer({ type: 'array', items: PET }) },
      post: {
        operationId: 'addPet',
        requestBody: { required: true, ...json(PET) },
        responses: { 201: { description: 'made', ...json(PET) } },
        security: [{ oauth: ['pets:write'] }],
      },
    },
    '/pets/{id}': {
      parameters: [param('id', 'path', { type: 'integer' })],
      get: { operationId: 'getPet', responses: jsonAnswer(PET) },
      delete: { operationId: 'deletePet', responses: { 204: { description: 'gone' } } },
    },
    '/names/{name}': get('byName', { parameters: [param('name', 'path')] }),
    '/form': {
      post: {
        operationId: 'form',
        requestBody: {
          content: {
            'application/x-www-form-urlencoded': {
              schema: { type: 'object' },
              encoding: { joined: { style: 'pipeDelimited', explode: false } },
            },
          },
        },
        responses: OK,
      },
    },
    '/canary': get('canary', { parameters: [param('X-Note', 'header'), param('mine', 'cookie')] }),
    '/kinds/{kind}': get('kind', { parameters: [param('kind', 'path')] }),
    '/promised/{kind}': get('promised', {
      parameters: [param('kind', 'path')],
      responses: jsonAnswer({ type: 'object' }),
    }),
    '/fails/{status}': get('fail', {
      parameters: [param('status', 'path', { type: 'integer' }), param('as')],
    }),
    '/redirect': get('redirect', { parameters: [param('to')] }),
    '/big': get('big', { parameters: [param('bytes', 'query', { type: 'integer' })] }),
    '/never': get('never'),
    '/breaks': get('breaks'),
    '/drops': get('drops'),
    '/head': { head: { operationId: 'head', responses: OK } },
  },
  {
    openapi: '3.1.0',
    servers: [{ url: 'https://api.example.com/{version}', variables: { version: { default: 'v1' } } }],
    components: { securitySchemes: { oauth: { type: 'oauth2', flows: {} } } },
  },
)

/** The request to `/never`, which does not respond. */
let never: { readonly begun: Signalled; readonly closed: Signalled }
let reached: string[]

function routes(make: typeof express): RequestListener {
  const app = make()
  app.set('env', 'test')
  const v1 = make.Router()
  v1.use((req, _res, next) => {
    reached.push(`${req.method} ${req.originalUrl}`)
    next()
  })
  v1.use(make.json(), make.urlencoded({ extended: false }))
  v1.get('/pets', (_req, res) => void res.json([{ id: 1, name: 'Rex' }]))
  v1.post('/pets', (req, res) => void res.status(201).json(req.body))
  v1.get('/pets/:id', (req, res) => void res.json({ id: Number(req.params.id), name: 'Rex' }))
  v1.delete('/pets/:id', (_req, res) => void res.status(204).end())
  v1.get('/names/:name', (req, res) => void res.json({ name: req.params.name }))
  v1.post('/form', (req, res) => void res.json({ type: req.headers['content-type'], body: req.body }))
  v1.get('/canary', (req, res) => {
    const { auth } = req as typeof req & { auth?: { token: string } }
    res.json({ headers: req.headers, raw: req.rawHeaders, auth, token: auth?.token ?? null, ip: req.ip })
  })
  v1.get('/kinds/text', (_req, res) => void res.type('text/plain').send('plain words'))
  v1.get('/kinds/image', (_req, res) => void res.type('image/png').send(Buffer.from('png')))
  v1.get('/kinds/zip', (_req, res) => void res.type('application/zip').send(Buffer.from('zip')))
  v1.get('/kinds/empty', (_req, res) => void res.type('json').end())
  v1.get(
    '/kinds/result',
    (_req, res) => void res.json({ content: [{ type: 'text', text: 'I am a tool result' }] }),
  )
  v1.get('/kinds/pieces', (_req, res) => {
    res.write('one ')
    setImmediate(() => res.end('two'))
  })
  v1.get('/promised/broken', (_req, res) => void res.type('json').send('{"a":'))
  v1.get('/promised/text', (_req, res) => void res.type('text/plain').send('no JSON'))
  v1.get('/promised/wrong', (_req, res) => void res.json(['no object']))
  v1.get('/fails/:status', (req, res) => {
    res.status(Number(req.params.status)).set('Retry-After', '7')
    if (req.query.as === 'text') res.type('text/plain').send(`cost\u001b[31m ${'x'.repeat(5000)}`)
    else if (req.query.as === 'html') res.send('<pre>Error: at secret.js:1</pre>')
    else res.json({ error: 'no_such_pet' })
  })
  v1.get('/redirect', (req, res) => void res.redirect(String(req.query.to)))
  v1.get('/loop', (_req, res) => void res.redirect('/v1/loop'))
  v1.get('/big', (req, res) => void res.type('text/plain').send('x'.repeat(Number(req.query.bytes))))
  v1.get('/never', (_req, res) => {
    never.begun.resolve()
    res.once('close', () => never.closed.resolve())
  })
  v1.get('/breaks', (_req, res) => {
    res.write('half')
    setImmediate(() => res.destroy())
  })
  v1.get('/drops', (req) => void req.destroy())
  v1.head('/head', (_req, res) => void res.set('X-Seen', 'yes').end())
  app.use('/v1', v1)
  return app as unknown as RequestListener
}

const HOSTS: readonly { name: string; make: () => RequestListener; http: boolean }[] = [
  { name: 'Express 5 in process', make: () => routes(express), http: false },
  { name: 'Express 4 in process', make: () => routes(express4 as unknown as typeof express), http: false },
  { name: 'Express 5 over HTTP', make: () => routes(express), http: true },
]

describe('openapi: tools of routes, called by a client of the official SDK', () => {
  beforeEach(() => {
    never = { begun: signalled<void>(), closed: signalled<void>() }
    reached = []
  })

  for (const { name, make, http } of HOSTS) {
    describe(name, () => {
      let app: RequestListener

      /** A client of an MCP server, protected or not, that has the routes as tools. */
      async function connected(options: Partial<OpenApiToolOptions> = {}, token?: string): Promise<Client> {
        app = make()
        const target = http ? { baseUrl: `${(await listen(app)).origin}/v1` } : { app }
        const router = await toolsFromOpenApi(document, { ...target, ...options })
        const server = KitMcpServer.create().router(router)
        const oauth = oauthOptions({}, { scopes: ['pets:read'], clientId: 'c1', user: { id: 'ada' } })
        const adapter = (token === undefined ? server : server.withOAuth(oauth)).build()
        const host = express()
        if (token !== undefined) host.use('/mcp', mcpAuth(adapter))
        host.use('/mcp', mcpHandler(adapter))
        const { origin } = await listen(host)
        return await clientOf(origin, token)
      }

      const call = async (client: Client, tool: string, args: object = {}): Promise<any> =>
        await client.callTool({ name: tool, arguments: args as Record<string, unknown> })
      /** Returns the text of a result that is not an error. */
      const textOf = async (client: Client, tool: string, args: object = {}): Promise<string> => {
        const result = await call(client, tool, args)
        expect(result.isError, JSON.stringify(result)).to.not.equal(true)
        return result.content[0].text
      }

      it('tools are listed and called', async () => {
        const client = await connected({ scopes: false })
        const { tools } = await client.listTools()
        expect(tools.map((tool) => tool.name)).to.include.members(['listPets', 'getPet', 'head'])
        const pet = await call(client, 'getPet', { id: 7 })
        expect(pet.structuredContent).to.deep.equal({ id: 7, name: 'Rex' })
        expect(JSON.parse(pet.content[0].text)).to.deep.equal({ id: 7, name: 'Rex' })
        const list = await call(client, 'listPets')
        // Before 2026-07-28 structured content had to be an object.
        expect(list.structuredContent).to.deep.equal({ result: [{ id: 1, name: 'Rex' }] })
        const made = await call(client, 'addPet', { body: { id: 2, name: 'Bo "ü"' } })
        expect(made.structuredContent).to.deep.equal({ id: 2, name: 'Bo "ü"' })
        expect(await textOf(client, 'deletePet', { id: 1 })).to.equal('HTTP 204 No Content')
        expect(await textOf(client, 'head')).to.equal('HTTP 200 OK')
      })

      it('invalid arguments are rejected before the route is called', async () => {
        const client = await connected()
        for (const args of [{}, { id: 'seven' }, { id: 1, more: true }]) {
          const { isError, content } = await call(client, 'getPet', args)
          expect(isError).to.equal(true)
          expect(content[0].text).to.match(/^Invalid arguments for tool getPet/)
        }
        expect(reached).to.deep.equal([])
      })

      it('no argument leads to another route', async () => {
        const client = await connected()
        for (const name of ['', '.', '..']) {
          const { isError, content } = await call(client, 'byName', { name })
          expect(isError).to.equal(true)
          expect(content[0].text).to.match(/must not be empty/)
        }
        expect(reached).to.deep.equal([])
        for (const name of ['a/b', '../pets', '%2e%2e', '?a=b#c', '..;', 'ü "☂"', '\\..\\pets']) {
          expect(JSON.parse(await textOf(client, 'byName', { name }))).to.deep.equal({ name })
        }
      })

      it('a tool sends forms', async () => {
        const client = await connected()
        const body = { text: 'a&b=ü', list: ['x', 'y'], joined: ['x', 'y'], object: { a: 1 } }
        expect(JSON.parse(await textOf(client, 'form', { body }))).to.deep.equal({
          type: 'application/x-www-form-urlencoded',
          body: { text: 'a&b=ü', list: ['x', 'y'], joined: 'x|y', object: '{"a":1}' },
        })
        expect((await call(client, 'form', { body: undefined })).isError).to.not.equal(true)
      })

      it('neither the token nor the cookies of the client are passed on', async () => {
        const client = await connected({}, 'good')
        const seen = JSON.parse(await textOf(client, 'canary', { 'X-Note': 'hello', mine: 'own' }))
        expect(seen.headers).to.include({ 'x-note': 'hello', cookie: 'mine=own' })
        expect(JSON.stringify(seen)).to.not.match(/good|client-cookie|mcp-|bearer/i)
        expect(seen.headers).to.not.have.property('authorization')
        expect(seen.token).to.equal(http ? null : '')
        if (!http)
          expect(seen.auth).to.deep.equal({
            clientId: 'c1',
            scopes: ['pets:read'],
            user: { id: 'ada' },
            extra: {},
          })
      })

      it('tools need the scopes of the document', async () => {
        const client = await connected({}, 'good')
        const error = await call(client, 'addPet', { body: { id: 1, name: 'a' } }).catch((thrown) => thrown)
        expect(String(error)).to.match(/403|scope/i)
        expect(reached).to.deep.equal([])
        expect((await call(client, 'listPets')).isError).to.not.equal(true)
      })

      it('requests have the headers of the application', async () => {
        const client = await connected(
          {
            headers: async ({ auth }) => ({
              Authorization: 'Bearer upstream',
              'X-User': (auth?.user as any)?.id,
            }),
          },
          'good',
        )
        const { headers } = JSON.parse(await textOf(client, 'canary'))
        expect(headers).to.include({ authorization: 'Bearer upstream', 'x-user': 'ada' })
      })

      it('a header of two lines is rejected', async () => {
        const client = await connected()
        const { isError, content } = await call(client, 'canary', { 'X-Note': 'a\r\nX-Admin: 1' })
        expect(isError).to.equal(true)
        expect(content[0].text).to.match(/'X-Note' cannot be sent/)
        expect(reached).to.deep.equal([])
      })

      it('text, images, and other content become results', async () => {
        const client = await connected()
        for (const [kind, expected] of [
          ['text', { type: 'text', text: 'plain words' }],
          ['pieces', { type: 'text', text: 'one two' }],
          ['empty', { type: 'text', text: 'HTTP 200 OK' }],
          ['zip', { type: 'text', text: 'HTTP 200 OK: 3 bytes of application/zip' }],
          ['image', { type: 'image', data: Buffer.from('png').toString('base64'), mimeType: 'image/png' }],
          ['result', { type: 'text', text: '{"content":[{"type":"text","text":"I am a tool result"}]}' }],
        ] as const) {
          expect((await call(client, 'kind', { kind })).content).to.deep.equal([expected])
        }
      })

      for (const [kind, message] of [
        ['broken', /responded with invalid JSON/],
        ['text', /did not respond with JSON as its schema requires/],
        ['wrong', /^HTTP 200 OK: the response does not match its schema: data must be object$/],
      ] as const) {
        it(`a response that does not match its schema is an error: ${kind}`, async () => {
          const client = await connected()
          const { isError, content } = await call(client, 'promised', { kind })
          expect(isError).to.equal(true)
          expect(content[0].text).to.match(message)
        })
      }

      for (const [what, args, expected] of [
        ['a 404', { status: 404 }, /^HTTP 404 Not Found, try again after 7: \{"error":"no_such_pet"\}$/],
        [
          'a long text',
          { status: 409, as: 'text' },
          /^HTTP 409 Conflict, try again after 7: cost\[31m x{1900,}…$/,
        ],
        ['HTML', { status: 400, as: 'html' }, /^HTTP 400 Bad Request, try again after 7$/],
        ['the words of a 500', { status: 500 }, /^HTTP 500 Internal Server Error, try again after 7$/],
      ] as const) {
        it(`a status other than 2xx is an error: ${what}`, async () => {
          const client = await connected()
          const { isError, content } = await call(client, 'fail', args)
          expect(isError).to.equal(true)
          expect(content[0].text).to.match(expected)
          expect(content[0].text.length).to.be.below(2100)
        })
      }

      it('redirects are followed, but not to another host, and not forever', async () => {
        const client = await connected()
        expect(await textOf(client, 'redirect', { to: '/v1/kinds/text' })).to.equal('plain words')
        expect(await textOf(client, 'redirect', { to: './kinds/text?x=1#y' })).to.equal('plain words')
        const other = await listen((_req, res) => {
          reached.push('other')
          res.end()
        })
        for (const to of [`${other.origin}/`, `//127.0.0.1:${other.port}/`, '/v1/loop', 'http://[']) {
          const { isError, content } = await call(client, 'redirect', { to })
          expect(isError).to.equal(true)
          expect(content[0].text).to.equal('HTTP 302 Found')
        }
        expect(reached).to.not.include('other')
        expect(reached.filter((route) => route === 'GET /v1/loop')).to.have.length(5)
      })

      it('a response that is too large is an error', async () => {
        const client = await connected({ maxResponseBytes: 1000 })
        expect(await textOf(client, 'big', { bytes: 1000 })).to.have.length(1000)
        const { isError, content } = await call(client, 'big', { bytes: 1001 })
        expect(isError).to.equal(true)
        expect(content[0].text).to.match(/larger than 1000 bytes/)
      })

      it('a route that does not respond in time is an error', async () => {
        const client = await connected({ timeoutMs: 50 })
        const { isError, content } = await call(client, 'never')
        expect(isError).to.equal(true)
        expect(content[0].text).to.equal('The route did not respond within 50 ms.')
        await never.closed.promise
      })

      it('a request is aborted when the client disconnects', async () => {
        const client = await connected()
        const given = new AbortController()
        const calling = client
          .callTool({ name: 'never', arguments: {} }, { signal: given.signal })
          .catch(() => undefined)
        await never.begun.promise
        given.abort()
        await client.close()
        await Promise.all([never.closed.promise, calling])
      })

      it('a response that breaks off is an error', async () => {
        const client = await connected()
        for (const tool of ['breaks', 'drops']) {
          const { isError, content } = await call(client, tool)
          expect(isError).to.equal(true)
          expect(content[0].text).to.match(/did not complete/)
        }
      })

      it('concurrent calls do not affect each other', async () => {
        const client = await connected()
        const results = await Promise.all(
          Array.from({ length: 50 }, (_, id) => call(client, 'getPet', { id })),
        )
        expect(results.map(({ structuredContent }) => structuredContent.id)).to.deep.equal(
          results.map((_, id) => id),
        )
      })

      if (!http) {
        it('calls in process do not change the app for requests over a socket', async () => {
          const client = await connected()
          await textOf(client, 'canary')
          const { origin } = await listen(app)
          const res = await fetch(`${origin}/v1/canary`, { headers: { 'x-note': 'over a socket' } })
          expect(((await res.json()) as any).headers).to.include({ 'x-note': 'over a socket' })
          const { request, response } = (name.includes('4') ? express4 : express) as unknown as Record<
            string,
            object
          >
          expect(Object.getPrototypeOf(request)).to.equal(IncomingMessage.prototype)
          expect(Object.getPrototypeOf(response)).to.equal(ServerResponse.prototype)
        })
      }
    })
  }

  describe('of a bare listener in process', () => {
    const call = async (app: RequestListener, options: object = {}): Promise<any> => {
      const router = await toolsFromOpenApi(documentOf({ '/a': get('a') }), { app, ...options })
      const { origin } = await listen(
        mcpHandler(KitMcpServer.create().router(router).build()) as RequestListener,
      )
      return await (await clientOf(origin)).callTool({ name: 'a', arguments: {} })
    }

    it('tools of another server serve calls', async () => {
      const { content } = await call((req, res) => res.end(`${req.method} ${req.url}`), { basePath: '/base' })
      expect(content).to.deep.equal([{ type: 'text', text: 'GET /base/a' }])
    })

    for (const [how, app] of [
      [
        'throws',
        () => {
          throw new Error('secret')
        },
      ],
      [
        'rejects',
        async () => {
          throw new Error('secret')
        },
      ],
    ] as [string, RequestListener][]) {
      it(`an app that ${how} is an error`, async () => {
        const { isError, content } = await call(app)
        expect(isError).to.equal(true)
        expect(content[0].text).to.match(/is not reachable/)
      })
    }
  })

  for (const [how, selection] of [
    ['rules', { operationIds: ['listP*'] }],
    ['a function', ({ operationId }: { operationId?: string }) => operationId === 'listPets'],
  ] as const)
    it(`operations that public selects with ${how} are called without a token, and others are not`, async () => {
      const app = routes(express)
      const router = await toolsFromOpenApi(document, { app, scopes: false, public: selection })
      const server = KitMcpServer.create().router(router)
      const adapter = server.withOAuth({ ...oauthOptions(), anonymous: true }).build()
      const { origin } = await listen(mcpHandler(adapter) as RequestListener)
      const statusOf = async (name: string): Promise<number> => {
        const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name } })
        const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' }
        return (await fetch(origin, { method: 'POST', headers, body })).status
      }
      expect(await statusOf('listPets')).to.equal(200)
      expect(await statusOf('deletePet')).to.equal(401)
    })

  it('an operation for which the document requires scopes cannot be public', async () => {
    const app = routes(express)
    const error = await toolsFromOpenApi(document, { app, public: { operationIds: ['addPet'] } }).catch(
      (thrown: Error) => thrown,
    )
    expect(error).to.be.an('error').with.property('message').that.contains('addPet').and.contains('scopes')
  })

  it('a server that is not reachable, or does not speak HTTP, is an error', async () => {
    const raw = createRaw((socket) => socket.end('nonsense\r\n\r\n')).listen(0, '127.0.0.1')
    await once(raw, 'listening')
    const { port } = raw.address() as { port: number }
    for (const one of [port, await freePort()]) {
      const router = await toolsFromOpenApi(documentOf({ '/a': get('a') }), {
        baseUrl: `http://127.0.0.1:${one}`,
      })
      const { origin } = await listen(
        mcpHandler(KitMcpServer.create().router(router).build()) as RequestListener,
      )
      const { isError, content } = (await (
        await clientOf(origin)
      ).callTool({ name: 'a', arguments: {} })) as any
      expect(isError).to.equal(true)
      expect(content[0].text).to.match(/is not reachable/)
    }
    raw.close()
  })
})
