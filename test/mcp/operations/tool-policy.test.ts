import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import { z } from 'zod'
import { createMcpAdapter, KitMcpRouter, mcpServer, serveStdio } from '../../../src/index.ts'
import type { McpAdapterOptions } from '../../../src/mcp/options.ts'
import { InMemoryTransportAdapter, KitTelemetry } from '../../../src/telemetry/index.ts'
import { listen } from '../../support/listen.ts'

describe('authorize of a tool', () => {
  let asked: string[] = []
  beforeEach(() => {
    asked = []
  })

  const router = KitMcpRouter.create().tool(
    'wipe',
    {
      description: 'Wipes notes',
      input: z.object({ count: z.number() }),
      authorize({ purpose, args, auth }) {
        const count: number = args.count
        asked.push(`${purpose} ${count} ${auth?.user.id}`)
        if (count === 4) return new Promise(() => undefined)
        if (count === 3) throw new Error('down')
        if (count === 2) return { deny: 'Ask an admin', scopes: ['mcp:admin'] }
        return count === 1 ? { deny: 'Only on weekdays' } : true
      },
    },
    () => 'done',
  )

  async function serve(options: Omit<McpAdapterOptions, 'telemetry'> = {}, telemetry?: unknown) {
    const adapter = createMcpAdapter({
      router,
      oauth: {
        issuer: 'https://auth.example.com',
        verifyToken: () => ({ valid: true, user: { id: 'ada' }, scopes: [] }),
      },
      authorizeTimeoutMs: 50,
      ...(telemetry !== undefined && { telemetry: telemetry as never }),
      ...options,
    })
    const { origin } = await listen(express().use(mcpServer(adapter) as RequestHandler))
    return (method: string, params: unknown) =>
      fetch(`${origin}/mcp`, {
        method: 'POST',
        headers: {
          Authorization: 'Bearer a',
          'Content-Type': 'application/json',
          Accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method, params }),
      })
  }
  const call = (count: number) => ['tools/call', { name: 'wipe', arguments: { count } }] as const

  for (const [count, status, text] of [
    [0, 200, 'done'],
    [1, 200, 'Only on weekdays'],
    [2, 403, 'mcp:admin'],
    [3, 200, 'You are not allowed to use this tool.'],
    [4, 200, 'You are not allowed to use this tool.'],
  ] as const)
    it(`decides about a call with the argument ${count}, once`, async () => {
      const send = await serve()
      const response = await send(...call(count))
      expect(response.status).to.equal(status)
      const found = (response.headers.get('www-authenticate') ?? '') + (await response.text())
      expect(found).to.contain(text)
      expect(asked).to.deep.equal([`call ${count} ada`])
    })

  it('is asked after the authorize of the adapter, and only if that permits the call', async () => {
    const send = await serve({
      authorize({ purpose, args }) {
        asked.push(`adapter ${purpose}`)
        return purpose === 'list' || args?.count === 0
      },
    })
    await send(...call(0))
    await send(...call(5))
    expect(asked).to.deep.equal(['adapter call', 'call 0 ada', 'adapter call'])
  })

  it('is not asked about lists or invalid arguments', async () => {
    const send = await serve()
    expect(await (await send('tools/list', {})).text()).to.contain('wipe')
    await send('tools/call', { name: 'wipe', arguments: { count: 'x' } })
    expect(asked).to.deep.equal([])
  })

  it('emits kit.mcp.policy.denied', async () => {
    const transport = InMemoryTransportAdapter.create()
    const telemetry = KitTelemetry.create().addTransport(transport).build()
    const send = await serve({}, telemetry)
    await send(...call(1))
    await telemetry.shutdown()
    expect(transport.getEvents().map(({ name }) => name)).to.include('kit.mcp.policy.denied')
  })

  it('must be a function', () => {
    expect(() =>
      KitMcpRouter.create().tool('a', { description: 'A', authorize: true as never }, () => 'a'),
    ).to.throw(/authorize of tool 'a'/)
  })

  it('makes serveStdio require trustLocal', () => {
    expect(() => serveStdio(router)).to.throw(/trustLocal/)
  })
})
