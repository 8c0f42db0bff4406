import { expect } from 'chai'
import express, { type RequestHandler } from 'express'
import request from 'supertest'
import { type McpCorsOptions, mcpCors, type OAuthOptions } from '../../src/index.ts'
import { gatedApp, oauthOptions } from '../support/gate-app.ts'
import { listen } from '../support/listen.ts'

const APP = 'https://app.example.com'
const PREFLIGHT = { Origin: APP, 'Access-Control-Request-Method': 'POST' }
const EXPOSED = 'WWW-Authenticate,Mcp-Session-Id,MCP-Protocol-Version,Retry-After'
const REQUEST_HEADERS =
  'Authorization,Content-Type,Accept,MCP-Protocol-Version,Mcp-Session-Id,Mcp-Method,Mcp-Name,Last-Event-ID,DPoP,traceparent,tracestate,baggage'

function corsApp(options?: McpCorsOptions, oauth: OAuthOptions = oauthOptions()) {
  return gatedApp(oauth, { before: [mcpCors(options) as RequestHandler] })
}

const corsHeaders = (headers: Readonly<Record<string, unknown>>) =>
  Object.fromEntries(Object.entries(headers).filter(([name]) => name.startsWith('access-control-')))

describe('mcpCors()', () => {
  describe('preflights', () => {
    it('a preflight response names every header of MCP', async () => {
      const { status, headers, text } = await request(corsApp()).options('/mcp').set(PREFLIGHT)
      expect(status).to.equal(204)
      expect(text).to.equal('')
      expect(corsHeaders(headers)).to.deep.equal({
        'access-control-allow-origin': '*',
        'access-control-allow-methods': 'GET,POST,DELETE,OPTIONS',
        'access-control-allow-headers': REQUEST_HEADERS,
        'access-control-expose-headers': EXPOSED,
      })
    })

    const asked: readonly (readonly [asked: string, added: readonly string[]])[] = [
      ['authorization, content-type', []],
      ['mcp-param-region', ['mcp-param-region']],
      ['authorization,Mcp-Param-Region, mcp-param-x_1', ['Mcp-Param-Region', 'mcp-param-x_1']],
      ['x-secret, mcp-param-a', ['mcp-param-a']],
      ['mcp-param-', []],
      ['mcp-parameter', []],
      ['x-mcp-param-a', []],
      ['mcp-param-a b, mcp-param-(c), mcp-param-d', ['mcp-param-d']],
      ['*', []],
      ['', []],
    ]
    for (const [names, added] of asked) {
      it(`a preflight for ${JSON.stringify(names)} allows the additional headers ${JSON.stringify(added)}`, async () => {
        const { headers } = await request(corsApp())
          .options('/mcp')
          .set({ ...PREFLIGHT, 'Access-Control-Request-Headers': names })
        expect(headers['access-control-allow-headers']).to.equal([REQUEST_HEADERS, ...added].join(','))
      })
    }

    it('a preflight is answered before the gate', async () => {
      let asked = 0
      const verifyToken = async () => {
        asked++
        return undefined
      }
      await request(corsApp({}, oauthOptions({ verifyToken })))
        .options('/mcp')
        .set(PREFLIGHT)
        .expect(204)
      expect(asked).to.equal(0)
    })
  })

  describe('the option origin', () => {
    const origins: readonly (readonly [
      what: string,
      origin: McpCorsOptions['origin'],
      allowed: string | undefined,
    ])[] = [
      ['nothing, for every origin', undefined, '*'],
      ['*', '*', '*'],
      ['a text', APP, APP],
      ['another text', 'https://other.example.com', 'https://other.example.com'],
      ['a list', ['https://other.example.com', APP], APP],
      ['a list of others', ['https://other.example.com'], undefined],
      ['an expression', /\.example\.com$/, APP],
      ['an expression that does not match', /\.example\.org$/, undefined],
      ['true, for every origin', true, APP],
      ['false, for no origin', false, undefined],
      ['a function', (origin, callback) => callback(null, origin === APP), APP],
      ['a function that refuses', (_, callback) => callback(null, false), undefined],
    ]
    for (const [what, origin, allowed] of origins) {
      it(`the option origin may be ${what}`, async () => {
        const app = corsApp({ origin } as McpCorsOptions)
        const post = await request(app).post('/mcp').set('Origin', APP).expect(401)
        expect(post.headers['access-control-allow-origin']).to.equal(allowed)
        expect(post.headers).not.to.have.property('access-control-allow-credentials')
        const reflects = allowed !== '*' && origin !== false && !what.includes('refuses')
        expect(post.headers.vary, 'Vary').to.equal(reflects ? 'Origin' : undefined)
        const preflight = await request(app).options('/mcp').set(PREFLIGHT)
        expect(preflight.headers['access-control-allow-origin']).to.equal(allowed)
      })
    }

    it('an error of a function as origin reaches the application', async () => {
      const app = express()
        .use(mcpCors({ origin: (_, callback) => callback(new Error('no such tenant')) }) as RequestHandler)
        .use(((error, _req, res, _next) => {
          res.status(418).end((error as Error).message)
        }) as express.ErrorRequestHandler)
      const { text } = await request(app).get('/').set('Origin', APP).expect(418)
      expect(text).to.equal('no such tenant')
    })
  })

  it('mcpCors() works on a plain server, with and without later middleware', async () => {
    const middleware = mcpCors()
    const { origin } = await listen((req, res) => {
      middleware(req, res)
      if (!res.headersSent) res.writeHead(299).end()
    })
    const preflight = await fetch(origin, { method: 'OPTIONS', headers: PREFLIGHT })
    expect(preflight.status).to.equal(204)
    const response = await fetch(origin)
    expect(response.status).to.equal(299)
    expect(response.headers.get('access-control-allow-origin')).to.equal('*')
  })
})
