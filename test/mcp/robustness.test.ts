import { once } from 'node:events'
import { connect } from 'node:net'
import { expect } from 'chai'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpHandler } from '../../src/index.ts'
import { onNode, web } from '../support/mcp/entry-points.ts'
import { oauth } from '../support/mcp/notes.ts'
import {
  bearer,
  call,
  definedOf,
  legacy,
  modern,
  rpc,
  type Signalled,
  signalled,
} from '../support/mcp/wire.ts'

/** The latest call of each tool. */
let started: Signalled
let aborted: Signalled

const router = KitMcpRouter.create()
  .context(() => ({ user: undefined as unknown }))
  .tool('echo', { description: 'x', input: z.object({ text: z.string() }) }, ({ text }, context) => {
    return { text, user: context.auth?.user }
  })
  .tool('write', { description: 'x', scopes: ['mcp:write'] }, () => 'x')
  .tool('wait', { description: 'x' }, async (_args, { signal }) => {
    started.resolve()
    await once(signal, 'abort')
    aborted.resolve()
  })
  .tool('stream', { description: 'x' }, async (_args, context) => {
    await context.progress(1)
    started.resolve()
    await once(context.signal, 'abort')
    aborted.resolve()
  })

beforeEach(() => {
  started = signalled()
  aborted = signalled()
})

describe('mcp: unusual request targets', () => {
  it('every request target gets a response', async () => {
    const served = await onNode(mcpHandler(createMcpAdapter({ router, oauth: oauth() })))
    const body = JSON.stringify(rpc('tools/list'))
    try {
      for (const target of [
        '/mcp?x=%%%',
        '//mcp',
        '*',
        '/%zz',
        'http://127.0.0.1/mcp',
        '/?',
        '/\\',
        'http://a:b:c/',
        'http://127.0.0.1:99999/',
      ]) {
        const socket = connect(served.port, '127.0.0.1')
        socket.write(
          [
            `POST ${target} HTTP/1.1`,
            'Host: 127.0.0.1',
            'Content-Type: application/json',
            'Authorization: Bearer reader',
            `Content-Length: ${body.length}`,
            'Connection: close',
            '',
            body,
          ].join('\r\n'),
        )
        let text = ''
        socket.setEncoding('utf8').on('data', (chunk: string) => {
          text += chunk
        })
        await once(socket, 'close')
        expect(text, target).to.match(/^HTTP\/1\.1 200 /)
      }
    } finally {
      await served.close()
    }
  })
})

describe('mcp: the web-standard handler', () => {
  const { server } = createMcpAdapter({ router, oauth: oauth() })
  const stream = { name: 'stream', _meta: { progressToken: 1 } }

  it('the web-standard handler aborts the handler of a tool when the reader of a streamed response cancels it', async () => {
    for (const request of [legacy(rpc('tools/call', stream)), modern('tools/call', stream)]) {
      aborted = signalled()
      const init = { method: 'POST', headers: definedOf({ ...request.headers, ...bearer('reader') }) }
      const response = await server(
        new Request('http://localhost/mcp', { ...init, body: request.body as string }),
      )
      const reader = response.body?.getReader()
      await reader?.read()
      await reader?.cancel()
      await aborted.promise
    }
  })

  it('the web-standard handler aborts the handler of a tool when the request is aborted', async () => {
    for (const request of [legacy(rpc('tools/call', stream)), modern('tools/call', stream)]) {
      aborted = signalled()
      started = signalled()
      const abort = new AbortController()
      const init = { method: 'POST', headers: definedOf({ ...request.headers, ...bearer('reader') }) }
      const answering = server(
        new Request('http://localhost/mcp', {
          ...init,
          body: request.body as string,
          signal: abort.signal,
        }),
      )
      await started.promise
      abort.abort()
      await aborted.promise
      expect((await answering).status).to.equal(200)
    }
  })

  it('a body that breaks off is rejected', async () => {
    const { headers = {} } = legacy('', bearer('reader'))
    const body = new ReadableStream({
      start: (controller) => controller.error(new Error('the client is gone')),
    })
    const init = { method: 'POST', headers: definedOf(headers), body, duplex: 'half' }
    expect((await server(new Request('http://localhost/mcp', init as RequestInit))).status).to.equal(400)
  })

  it('a batch that cancels one of its own requests gets all responses', async () => {
    const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 1 } }
    const elsewhere = { ...cancelled, params: { requestId: 99 } }
    const batch = [call('echo', { text: 'a' }, 1), cancelled, elsewhere, null]
    const { send } = web(server)
    const headers = { ...bearer('reader'), 'mcp-protocol-version': undefined }
    const { status, messages } = await send(legacy(batch.slice(0, 3), headers))
    expect(status).to.equal(200)
    expect(messages).to.have.length(1)
    expect(messages[0]).to.include({ id: 1 })
    expect((await send(legacy([cancelled], headers))).status).to.equal(202)
    expect((await send(legacy(batch, headers))).status).to.equal(400)
  })
})

describe('mcp: whatever is sent', () => {
  for (const params of [
    { name: { toString: [] } },
    { name: ['write'] },
    { ref: { type: 'ref/prompt', name: { toString: 1 } } },
  ]) {
    it(`a name that is not a string gets a response: ${JSON.stringify(params)}`, async () => {
      const { send } = web(createMcpAdapter({ router }).server)
      for (const method of ['tools/call', 'prompts/get', 'completion/complete']) {
        expect((await send(legacy({ jsonrpc: '2.0', method, params }))).status).to.equal(202)
        const { status, message } = await send(legacy(rpc(method, params)))
        expect(status).to.be.within(200, 404)
        expect(message.error.code).to.be.oneOf([-32_602, -32_601])
      }
    })
  }
})
