import { expect } from 'chai'
import { optionChecksOf } from '../../../src/base/options/option-checks.ts'
import { createMcpAdapter, type McpAdapterOptions, mcpAuth, mcpCors, mcpHandler } from '../../../src/index.ts'
import { checkAllowedOrigins } from '../../../src/mcp/wire/origin-policy.ts'
import { onExpress, onNode, type Served, serving, web } from '../../support/mcp/entry-points.ts'
import { notes, oauth } from '../../support/mcp/notes.ts'
import { bearer, legacy, listen, rpc } from '../../support/mcp/wire.ts'

interface Rule {
  readonly host: string
  readonly oauth: boolean
  readonly options?: McpAdapterOptions
  readonly admits: readonly (string | undefined)[]
  readonly refuses: readonly string[]
}

const LOOPBACK_ORIGINS = [
  'http://localhost:5173',
  'https://localhost',
  'http://127.0.0.1:8080',
  'http://[::1]:3000',
  'http://app.localhost',
]
const NO_ORIGINS = ['null', 'file://', 'chrome-extension://abcdef', 'not an origin', '']
const FOREIGN = ['https://evil.example', 'http://localhost.evil.example', 'http://127.0.0.1.evil.example']

const RULES: readonly Rule[] = [
  ...['localhost:3000', '127.0.0.1:3000', '[::1]:3000', 'mcp.localhost', 'LOCALHOST'].flatMap((host) =>
    [true, false].map((on) => ({
      host,
      oauth: on,
      admits: [undefined, ...LOOPBACK_ORIGINS],
      refuses: [...FOREIGN, ...NO_ORIGINS, 'https://mcp.example.com'],
    })),
  ),
  {
    host: 'mcp.example.com',
    oauth: true,
    admits: [undefined, 'https://app.example.com', ...LOOPBACK_ORIGINS, ...FOREIGN],
    refuses: NO_ORIGINS,
  },
  {
    host: 'mcp.example.com',
    oauth: false,
    admits: [undefined, 'http://mcp.example.com'],
    refuses: [
      ...FOREIGN,
      ...NO_ORIGINS,
      ...LOOPBACK_ORIGINS,
      'https://mcp.example.com',
      'http://mcp.example.com:8080',
      'http://app.mcp.example.com',
    ],
  },
  ...[true, false].flatMap((on) =>
    ['mcp.example.com', 'localhost:3000'].map((host) => ({
      host,
      oauth: on,
      options: { allowedOrigins: ['https://app.example.com', 'http://localhost:5173'] },
      admits: [undefined, 'https://app.example.com', 'https://APP.example.com', 'http://localhost:5173'],
      refuses: [
        ...FOREIGN,
        ...NO_ORIGINS,
        `http://${host}`,
        'http://app.example.com',
        'https://app.example.com:8443',
        'https://app.example.com/path',
      ],
    })),
  ),
  ...[true, false].map((on) => ({
    host: 'mcp.example.com',
    oauth: on,
    options: { allowedOrigins: '*' as const },
    admits: [undefined, ...FOREIGN, ...LOOPBACK_ORIGINS],
    refuses: NO_ORIGINS,
  })),
  {
    host: 'mcp.example.com',
    oauth: true,
    options: { allowedOrigins: [] },
    admits: [undefined],
    refuses: ['http://mcp.example.com', ...FOREIGN],
  },
]

describe('mcp: Origin', () => {
  for (const { host, oauth: on, options = {}, admits, refuses } of RULES) {
    const setup = { router: notes, ...options, ...(on && { oauth: oauth() }) }
    const given = JSON.stringify(options)
    const entryPoints: [string, () => Promise<Served>][] = [
      ['server', async () => web(createMcpAdapter(setup).server, `http://${host}`)],
      [
        'mcpHandler',
        async () => {
          const adapter = createMcpAdapter({
            ...setup,
            allowedHosts: ['mcp.example.com', 'localhost', '127.0.0.1', '[::1]', 'mcp.localhost'],
          })
          const served = await onExpress(mcpHandler(adapter))
          return {
            ...served,
            send: (request) => served.send({ ...request, headers: { ...request.headers, host } }),
          }
        },
      ],
    ]
    for (const [entryPoint, serve] of entryPoints) {
      describe(`${entryPoint} at ${host} ${on ? 'with' : 'without'} OAuth, ${given}`, () => {
        const served = serving(serve)
        const ask = async (origin: string | undefined) => {
          const answers = [
            await served().send(legacy(rpc('tools/list'), { ...bearer('reader'), origin })),
            await served().send({
              method: 'OPTIONS',
              headers: { origin, 'access-control-request-method': 'POST' },
            }),
          ]
          return answers
        }
        it(`permitted origins are accepted by ${entryPoint} at ${host} ${on ? 'with' : 'without'} OAuth, ${given}`, async () => {
          for (const origin of admits) {
            const statuses = (await ask(origin)).map(({ status }) => status)
            expect(statuses, String(origin)).to.deep.equal([200, 204])
          }
        })
        it(`other origins get a 403 without an id, preflights too, from ${entryPoint} at ${host} ${on ? 'with' : 'without'} OAuth, ${given}`, async () => {
          for (const origin of refuses) {
            for (const answer of await ask(origin)) {
              expect(answer.status, origin).to.equal(403)
              expect(answer.message).to.have.all.keys('jsonrpc', 'error')
              expect(answer.headers.get('www-authenticate')).to.equal(null)
            }
          }
        })
      })
    }
  }

  it('Origin is checked before authentication, the body, and every function of the application', async () => {
    let asked = 0
    const { server } = createMcpAdapter({
      router: notes.context(() => {
        asked++
        return {}
      }),
      oauth: oauth({
        verifyToken: () => {
          asked++
          return undefined
        },
      }),
    })
    const response = await server(
      new Request('http://localhost/mcp', {
        method: 'POST',
        headers: { origin: 'https://evil.example' },
        body: '{',
      }),
    )
    expect(response.status).to.equal(403)
    expect(asked).to.equal(0)
  })

  it('Origin is checked by mcpHandler also if an mcpCors in front permits every origin', async () => {
    const adapter = createMcpAdapter({ router: notes, oauth: oauth() })
    const served = await onExpress(mcpCors({ origin: '*' }), mcpAuth(adapter), mcpHandler(adapter))
    try {
      const origin = 'https://evil.example'
      const preflight = { origin, 'access-control-request-method': 'POST' }
      expect((await served.send({ method: 'OPTIONS', headers: preflight })).status).to.equal(204)
      const called = await served.send(legacy(rpc('tools/list'), { ...bearer('reader'), origin }))
      expect(called.status).to.equal(403)
      expect(called.message).not.to.have.property('id')
    } finally {
      await served.close()
    }
  })

  it('the 401 of an mcpAuth in front comes before the check of Origin', async () => {
    const adapter = createMcpAdapter({ router: notes, oauth: oauth() })
    const served = await onExpress(mcpAuth(adapter), mcpHandler(adapter))
    try {
      const headers = { origin: 'https://evil.example' }
      expect((await served.send(legacy(rpc('tools/list'), headers))).status).to.equal(401)
    } finally {
      await served.close()
    }
  })
})

describe('mcp: Host', () => {
  const list = (host: string) => legacy(rpc('tools/list'), { ...bearer('reader'), host })

  describe('where the server listens on loopback', () => {
    const served = serving(() => onNode(mcpHandler(createMcpAdapter({ router: notes, oauth: oauth() }))))

    for (const host of [
      'localhost',
      'localhost:8080',
      '127.0.0.1',
      '127.0.0.2:1',
      '[::1]:1',
      'a.localhost',
    ]) {
      it(`the host ${host} is accepted by a server that listens on loopback`, async () =>
        expect((await served().send(list(host))).status).to.equal(200))
    }
    for (const host of [
      'evil.example',
      'localhost.evil.example',
      '127.0.0.1.evil.example',
      '10.0.0.1',
      '@',
    ]) {
      it(`the host ${host} gets a 403 without an id from a server that listens on loopback`, async () => {
        const answer = await served().send(list(host))
        expect(answer.status).to.equal(403)
        expect(answer.message).to.have.all.keys('jsonrpc', 'error')
      })
    }
    it('a preflight for an unknown host gets a 403 from a server that listens on loopback', async () => {
      const headers = {
        host: 'evil.example',
        origin: 'http://localhost',
        'access-control-request-method': 'POST',
      }
      expect((await served().send({ method: 'OPTIONS', headers })).status).to.equal(403)
    })
  })

  it('any host is accepted by a server that listens on all addresses', async () => {
    const handler = mcpHandler(createMcpAdapter({ router: notes, oauth: oauth() }))
    const served = await listen((req, res) => handler(req, res), '0.0.0.0')
    try {
      expect((await served.send(list('mcp.example.com'))).status).to.equal(200)
    } finally {
      await served.close()
    }
  })

  describe('with allowedHosts', () => {
    const setup = { router: notes, oauth: oauth(), allowedHosts: ['mcp.example.com', 'MCP.example.org'] }
    const entryPoints = {
      server: async () => {
        const served = web(createMcpAdapter(setup).server)
        return { ...served, send: (request: Parameters<Served['send']>[0]) => served.send(request) }
      },
      mcpHandler: () => onNode(mcpHandler(createMcpAdapter(setup))),
    }
    for (const [entryPoint, serve] of Object.entries(entryPoints)) {
      describe(entryPoint, () => {
        const served = serving(serve)
        for (const host of ['mcp.example.com', 'MCP.EXAMPLE.COM:8443', 'mcp.example.org']) {
          it(`the host ${host} is accepted by ${entryPoint} with allowedHosts`, async () =>
            expect((await served().send(list(host))).status).to.equal(200))
        }
        for (const host of ['localhost', '127.0.0.1', 'evil.example', 'a.mcp.example.com']) {
          it(`the host ${host} gets a 403 from ${entryPoint} with allowedHosts`, async () => {
            const answer = await served().send(list(host))
            expect(answer.status).to.equal(403)
            expect(answer.message).not.to.have.property('id')
          })
        }
      })
    }
    it('allowedHosts applies to the URL if a web-standard request has no Host header', async () => {
      const { server } = createMcpAdapter(setup)
      const ask = (url: string) => server(new Request(url, { headers: bearer('reader') }))
      expect((await ask('https://evil.example/mcp')).status).to.equal(403)
      const stream = await ask('https://mcp.example.com/mcp')
      expect(stream.status).to.equal(200)
      await stream.body?.cancel()
    })
  })
})

describe('checkAllowedOrigins()', () => {
  const checks = optionChecksOf('createMcpAdapter')
  for (const scheme of ['http', 'https']) {
    it(`an ${scheme} origin may have 259 characters after https://, and no more`, () => {
      const origin = (length: number) => `${scheme}://${'a'.repeat(length - scheme.length - 3)}`
      const longest = 'https://'.length + 259
      expect([...checkAllowedOrigins(checks, [origin(longest)])]).to.deep.equal([origin(longest)])
      expect(() => checkAllowedOrigins(checks, [origin(longest + 1)])).to.throw(
        /^allowedOrigins must contain only/,
      )
    })
  }
})
