import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { toNodeHandler } from '@modelcontextprotocol/node'
import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import type { Browser, Page } from 'playwright-core'
import { z } from 'zod'
import { protectedResourceRouter } from '../../src/express/protected-resource-router.ts'
import { KitMcpRouter, mcpAuth, mcpCors, mcpHandler, type OAuthOptions } from '../../src/index.ts'
import { createMcpAdapter, type McpAdapter } from '../../src/mcp/adapter.ts'
import type { McpAdapterOptions } from '../../src/mcp/options.ts'
import { VerifierUnavailableError } from '../../src/oauth/errors.ts'
import { parseChallenge } from '../support/challenge.ts'
import { chromiumMissing, startChromium } from '../support/chromium.ts'
import {
  bearer,
  call,
  definedOf,
  LEGACY,
  legacy,
  listen,
  modern,
  rpc,
  signalled,
} from '../support/mcp/wire.ts'
import { skipIf } from '../support/skip.ts'

const METADATA = '/.well-known/oauth-protected-resource'

/** Ends the tool `stream`. */
let release = signalled()

const router = KitMcpRouter.create()
  .tool(
    'forecast',
    {
      description: 'Tells the weather',
      input: z.object({ region: z.string().meta({ 'x-mcp-header': 'Region' }) }),
    },
    ({ region }, { auth }) => `rain in ${region} for ${auth?.clientId}`,
  )
  .tool('stream', { description: 'Goes on until it is released' }, async (_args, context) => {
    await context.progress(1, 2, 'half')
    await release.promise
    return 'whole'
  })
  .tool('release', { description: 'Ends the stream' }, () => {
    release.resolve()
    return 'released'
  })
  .tool('write', { description: 'Needs more', scopes: ['mcp:write'] }, () => 'written')

const oauth: OAuthOptions = {
  issuer: 'https://auth.example.com',
  scopes: ['mcp:read'],
  verifyToken: ({ bearerToken }) => {
    if (bearerToken === 'down') throw new VerifierUnavailableError('down', { retryAfterSeconds: 17 })
    return bearerToken === 'good' ? { valid: true, clientId: 'a page', scopes: ['mcp:read'] } : undefined
  },
}

const adapterWith = (options: McpAdapterOptions = {}) => createMcpAdapter({ router, oauth, ...options })

/** Mounts the web-standard handlers on a server without Express. */
function bare({ server, auth }: McpAdapter): RequestListener {
  const [mcp, preflight, metadata] = [server, auth.cors, auth.resource].map((handle) =>
    toNodeHandler({ fetch: async (request) => await handle(request) }),
  )
  return (req, res) => {
    const onMetadata = req.url?.startsWith(METADATA)
    const handle = req.method === 'OPTIONS' ? preflight : onMetadata ? metadata : mcp
    // The cast is for `exactOptionalPropertyTypes`.
    void handle?.(req as never, res as Parameters<NonNullable<typeof handle>>[1])
  }
}

function onExpress(adapter: McpAdapter, ...before: unknown[]): RequestListener {
  const app = express()
  app.use('/mcp', ...(before as RequestHandler[]), mcpHandler(adapter) as RequestHandler)
  return app.use(protectedResourceRouter(adapter) as RequestHandler)
}

type Arrangement = (adapter: McpAdapter, pageOrigin: string) => RequestListener

/** The servers that allow the page. */
const ARRANGEMENTS: Readonly<Record<string, Arrangement>> = {
  'Express with mcpCors, mcpAuth and mcpHandler': (adapter) =>
    onExpress(adapter, mcpCors(), mcpAuth(adapter)),
  'Express with mcpCors for a list of origins': (adapter, page) =>
    onExpress(adapter, mcpCors({ origin: ['https://app.example.com', page] }), mcpAuth(adapter)),
  'Express with mcpHandler alone': (adapter) => onExpress(adapter),
  'the web-standard handlers on a bare server': bare,
}

interface PageRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string | undefined>>
  readonly body?: unknown
}

/** The part of a response that a page can read, or an error if it can read nothing. */
interface Seen {
  readonly failed?: string
  readonly status?: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

/** Serves the page from another host and port, so that it is on another site than the server. */
let pageOrigin = ''

/** Serves until the suite has run. `log` contains the method and status of every request. */
function serving(make: (pageOrigin: string) => RequestListener) {
  const log: string[] = []
  let at: { origin: string; close: () => Promise<void> } | undefined
  before(async () => {
    const listener = make(pageOrigin)
    at = await listen((req: IncomingMessage, res: ServerResponse) => {
      res.once('finish', () => log.push(`${req.method} ${res.statusCode}`))
      listener(req, res)
    })
  })
  beforeEach(() => {
    log.length = 0
    release = signalled()
  })
  after(async () => at?.close())
  const url = (path = '/mcp') => `${at?.origin}${path}`
  return { log, url }
}

describe('a page in a browser', function () {
  this.timeout(120_000)
  let browser: Browser
  let page: Page
  let closePage: () => Promise<void>

  before(async function () {
    skipIf(this, chromiumMissing())
    const served = await listen((_req, res) => {
      res.setHeader('Content-Type', 'text/html')
      res.end('<!doctype html><title>A client</title>')
    })
    closePage = served.close
    pageOrigin = `http://localhost:${served.port}`
    browser = await startChromium()
    page = await browser.newPage()
    await page.goto(pageOrigin)
  })
  after(async () => {
    await browser?.close()
    await closePage?.()
  })

  /** Fetches in the page. Resolves with what the page can read. */
  function ask(url: string, { method = 'POST', headers = {}, body }: PageRequest = {}): Promise<Seen> {
    const init = { method, headers: definedOf(headers), ...(body !== undefined && { body: String(body) }) }
    return page.evaluate(
      async ([url, init]) => {
        try {
          const response = await fetch(url, init)
          const headers = Object.fromEntries(response.headers)
          return { status: response.status, headers, text: await response.text() }
        } catch (error) {
          return { failed: String(error), headers: {}, text: '' }
        }
      },
      [url, init] as const,
    )
  }

  for (const [name, arrange] of Object.entries(ARRANGEMENTS)) {
    describe(`of another origin, with ${name},`, () => {
      const { log, url } = serving((origin) => arrange(adapterWith(), origin))

      it(`a web page can read the challenge after a preflight, and fetch the metadata (${name})`, async () => {
        const refused = await ask(url(), modern('tools/list'))
        expect(refused.status).to.equal(401)
        expect(log).to.deep.equal(['OPTIONS 204', 'POST 401'])
        const challenge = parseChallenge(refused.headers['www-authenticate'] ?? '')
        expect(challenge).to.include({ error: 'invalid_token', scope: 'mcp:read' })
        expect(JSON.parse(refused.text)).to.include({ error: 'invalid_token' })
        const found = await ask(challenge.resource_metadata ?? '', {
          method: 'GET',
          headers: { 'mcp-protocol-version': LEGACY },
        })
        expect(found.status).to.equal(200)
        const document = JSON.parse(found.text)
        expect(document.authorization_servers).to.deep.equal(['https://auth.example.com'])
        expect([url(), new URL(url()).origin]).to.include(document.resource)
      })

      it(`a web page can call a tool in 2026-07-28 with a parameter in a header (${name})`, async () => {
        const request = modern(
          'tools/call',
          { name: 'forecast', arguments: { region: 'north' } },
          {
            ...bearer('good'),
            'mcp-param-region': 'north',
            traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
          },
        )
        const { status, text } = await ask(url(), request)
        expect(status).to.equal(200)
        expect(text).to.contain('rain in north for a page')
      })

      it(`a web page can call a tool in a legacy revision with a session and Last-Event-ID (${name})`, async () => {
        const headers = { ...bearer('good'), 'mcp-session-id': 'a', 'last-event-id': 'b' }
        const { status, text } = await ask(url(), legacy(call('forecast', { region: 'west' }), headers))
        expect(status).to.equal(200)
        expect(text).to.contain('rain in west')
      })

      it(`a web page can read a streamed response while the tool still runs (${name})`, async () => {
        const stream = modern('tools/call', { name: 'stream', _meta: { progressToken: 7 } }, bearer('good'))
        const ending = modern('tools/call', { name: 'release' }, bearer('good'))
        const pieces = await page.evaluate(
          async ([url, stream, ending]) => {
            const response = await fetch(url, { method: 'POST', ...stream })
            const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
            const first = await reader?.read()
            await fetch(url, { method: 'POST', ...ending })
            const pieces = [String(first?.value)]
            for (let next = await reader?.read(); next?.done === false; next = await reader?.read())
              pieces.push(String(next.value))
            return pieces
          },
          [
            url(),
            { headers: definedOf(stream.headers ?? {}), body: String(stream.body) },
            { headers: definedOf(ending.headers ?? {}), body: String(ending.body) },
          ] as const,
        )
        expect(pieces.length).to.be.greaterThan(1)
        expect(pieces[0]).to.contain('"half"').and.not.contain('whole')
        expect(pieces.slice(1).join('')).to.contain('whole')
      })

      it(`a web page can open an event stream with GET (${name})`, async () => {
        const first = await page.evaluate(
          async ([url, headers]) => {
            const abort = new AbortController()
            const response = await fetch(url, { headers, signal: abort.signal })
            const { value } = (await response.body?.getReader().read()) ?? {}
            abort.abort()
            return [response.status, new TextDecoder().decode(value)] as const
          },
          [
            url(),
            { ...bearer('good'), accept: 'text/event-stream', 'mcp-protocol-version': LEGACY },
          ] as const,
        )
        expect(first[0]).to.equal(200)
        expect(first[1]).to.match(/^:/)
      })

      it(`a web page cannot send a header that MCP clients do not use (${name})`, async () => {
        const request = legacy(rpc('tools/list'), { ...bearer('good'), 'x-anything': '1' })
        expect(await ask(url(), request))
          .to.have.property('failed')
          .that.contains('TypeError')
        expect(log).to.deep.equal(['OPTIONS 204'])
      })
    })
  }

  describe('of an origin that is not allowed,', () => {
    const options = { allowedOrigins: ['https://app.example.com'] }
    const CALL = modern('tools/list', {}, bearer('good'))

    for (const [name, arrange] of [
      ['mcpHandler', (adapter: McpAdapter) => onExpress(adapter)],
      ['the web-standard handlers', bare],
    ] as const) {
      describe(`by allowedOrigins, with ${name},`, () => {
        const { log, url } = serving(() => arrange(adapterWith(options)))
        it(`a web page that allowedOrigins excludes can read nothing, and its preflight gets a 403 (${name})`, async () => {
          expect(await ask(url(), CALL))
            .to.have.property('failed')
            .that.contains('TypeError')
          expect(log).to.deep.equal(['OPTIONS 403'])
        })
        it(`a web page that allowedOrigins excludes gets a 403 that it cannot read if the request needs no preflight (${name})`, async () => {
          // text/plain is a "simple" type, for which a browser sends no preflight.
          const seen = await ask(url(), { headers: { 'content-type': 'text/plain' }, body: '{}' })
          expect(seen).to.have.property('failed').that.contains('TypeError')
          expect(log).to.deep.equal(['POST 403'])
        })
      })
    }

    describe('by mcpCors with a list of other origins,', () => {
      const { log, url } = serving(() => {
        const adapter = adapterWith()
        return onExpress(adapter, mcpCors({ origin: ['https://app.example.com'] }), mcpAuth(adapter))
      })
      it('a web page that mcpCors excludes can read nothing and cannot call tools', async () => {
        expect(await ask(url(), CALL))
          .to.have.property('failed')
          .that.contains('TypeError')
        expect(log).to.deep.equal(['OPTIONS 204'])
      })
    })
  })
})
