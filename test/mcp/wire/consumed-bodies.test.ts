import { once } from 'node:events'
import { expect } from 'chai'
import type { NodeMiddleware } from '../../../src/base/http/node-middleware.ts'
import { createMcpAdapter, KitMcpRouter, mcpAuth, mcpHandler } from '../../../src/index.ts'
import { Http2Exchange, listenHttp2 } from '../../support/http2.ts'
import { onExpress, onNode } from '../../support/mcp/entry-points.ts'
import { oauth } from '../../support/mcp/notes.ts'
import { bearer, definedOf, legacy, rpc } from '../../support/mcp/wire.ts'

const router = KitMcpRouter.create().tool('t', { description: 'x' }, () => 'x')
const READ = 'The request body was read before it reached the MCP endpoint.'
const LIST = legacy(rpc('tools/list'), bearer('reader'))
const headers = definedOf(LIST.headers ?? {})

/** Middleware that reads bodies, and leaves nothing in `req.body`. */
const READERS: Readonly<Record<string, NodeMiddleware>> = {
  'with listeners': (req, _res, next) => void req.on('data', () => undefined).on('end', () => next?.()),
  'with resume()': (req, _res, next) => void req.resume().on('end', () => next?.()),
  'and keeps it in rawBody': (req, _res, next) => {
    const chunks: Buffer[] = []
    req.on('data', (chunk: Buffer) => chunks.push(chunk))
    req.on('end', () => next?.(Object.assign(req, { rawBody: Buffer.concat(chunks) }) && undefined))
  },
}

describe('mcp: bodies that were read before', () => {
  const lines: string[] = []
  const { error } = console
  beforeEach(() => {
    lines.length = 0
    console.error = (line: string) => void lines.push(line)
  })
  afterEach(() => {
    console.error = error
  })

  const expectOneLine = (): unknown => expect(lines.map((line) => line.includes(READ))).to.deep.equal([true])

  function expectRefused(status: number, text: string): void {
    const { code, message } = JSON.parse(text).error
    expect([status, code]).to.deep.equal([500, -32_603])
    expect(message).to.contain(READ).and.to.contain('req.body')
  }

  for (const [how, reader] of Object.entries(READERS))
    for (const [where, serve] of [
      ['on Express', onExpress],
      ['on node:http', onNode],
    ] as const)
      it(`get a 500 with the fix and one line if middleware ${where} has read them ${how}`, async () => {
        const adapter = createMcpAdapter({ router, oauth: oauth() })
        for (const handlers of [[mcpHandler(adapter)], [mcpAuth(adapter), mcpHandler(adapter)]]) {
          const served = await serve(reader, ...handlers)
          try {
            const { status, text } = await served.send(LIST)
            expectRefused(status, text)
          } finally {
            await served.close()
          }
        }
        expectOneLine()
      })

  it('get a 500 over HTTP/2', async () => {
    const handler = mcpHandler(createMcpAdapter({ router }))
    const server = await listenHttp2((req, res) => void req.resume().on('end', () => handler(req, res)))
    try {
      const { stream, status, closed } = new Http2Exchange(await server.connect(), headers)
      stream.end(LIST.body)
      expectRefused(await status, (await closed).text)
    } finally {
      await server.close()
    }
    expectOneLine()
  })

  it('get a 500 in a web-standard request, read or locked', async () => {
    const { server } = createMcpAdapter({ router })
    for (const use of [
      (request: Request) => request.text(),
      async (request: Request) => void request.body?.getReader(),
    ]) {
      const request = new Request('http://localhost/mcp', {
        method: 'POST',
        headers,
        body: LIST.body as string,
      })
      await use(request)
      const response = await server(request)
      expectRefused(response.status, await response.text())
    }
    expectOneLine()
  })

  it('are served if the middleware has left the parsed body', async () => {
    const parse: NodeMiddleware = async (req, _res, next) => {
      const [chunk] = await once(req, 'data')
      Object.assign(req, { body: JSON.parse(String(chunk)) })
      next?.()
    }
    const served = await onNode(parse, mcpHandler(createMcpAdapter({ router })))
    try {
      expect((await served.send(LIST)).status).to.equal(200)
    } finally {
      await served.close()
    }
  })
})
