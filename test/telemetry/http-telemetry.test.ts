import { once } from 'node:events'
import type { RequestListener } from 'node:http'
import { connect as connectTo } from 'node:net'
import { expect } from 'chai'
import connect from 'connect'
import express from 'express'
// @ts-expect-error: Express 4 has no types here.
import express4 from 'express4'
import {
  COMMON_SECRET_PATTERNS,
  type HttpTelemetryOptions,
  httpTelemetry,
  KitTelemetryEvents,
} from '../../src/telemetry/index.ts'
import { listenHttp2 } from '../support/http2.ts'
import { listen } from '../support/listen.ts'
import { recording } from '../support/telemetry/recording.ts'
import { until } from '../support/until.ts'

/** Marks arguments that TypeScript would reject. */
type Wrong = any

/** Sends requests to an application, and returns the events and the reports. */
async function eventsAfter(
  make: (telemetry: ReturnType<ReturnType<typeof recording>['builder']['build']>) => RequestListener,
  requests: (origin: string) => Promise<unknown>,
  shape: (builder: ReturnType<typeof recording>['builder']) => Wrong = (builder) => builder,
  count = 1,
) {
  const { builder, logger, events } = recording()
  const telemetry = shape(builder).build()
  const { origin } = await listen(make(telemetry))
  await requests(origin)
  await until(() => events().length >= count)
  await new Promise((resolve) => setTimeout(resolve, 20))
  return { events: events(), warnings: logger.warnings.map(({ message }) => message) }
}

const attributesOf = (events: Wrong): Wrong[] => events.map(({ attributes }: Wrong) => attributes)

describe('httpTelemetry', () => {
  for (const [version, make] of Object.entries({ 4: express4, 5: express })) {
    const routes: readonly (readonly [what: string, path: string, route: string | undefined])[] = [
      ['a route of the application', '/plain?token=s3cret', '/plain'],
      ['the root', '/', '/'],
      ['a route with a parameter', '/items/42', '/items/:id'],
      ['a route of a router', '/api/list', '/api/list'],
      ['the root of a router', '/api', '/api'],
      ['a router below a path with a parameter', '/tenants/acme/users/7', '/tenants/:tenant/users/:user'],
      [
        'a parameter whose value is like a path',
        '/tenants/tenants/users/users',
        '/tenants/:tenant/users/:user',
      ],
      ['a parameter that is encoded', '/tenants/a%2Fb/users/7', '/tenants/:tenant/users/:user'],
      ['a router that merges parameters', '/orgs/1/v1/users/5', '/orgs/:org/v1/users/:user'],
      ['a router below two parameters in one segment', '/flights/LAX-SFO/x', '/flights/:from-:to/:user'],
      ['a router below a regular expression', '/raw/s3cret/x', '/raw/*/:user'],
      ['a mounted application', '/admin/jobs/9', '/admin/jobs/:job'],
      ['a route that is a regular expression', '/re-17', '/^\\/re-\\d+$/'],
      ['a list of routes', '/two', '/one,/two'],
      ['a route that passes on', '/passes/5', '/passes/:id'],
      ['no route', '/missing', undefined],
    ]
    for (const [what, path, route] of routes) {
      it(`httpTelemetry names ${what} in Express ${version}`, async () => {
        const { events } = await eventsAfter(
          (telemetry) => {
            const app: Wrong = make()
            const ok = (_req: Wrong, res: Wrong) => res.end('ok')
            app.use(httpTelemetry(telemetry))
            app.get('/', ok)
            app.get('/plain', ok)
            app.get('/items/:id', ok)
            app.get(/^\/re-\d+$/, ok)
            app.get(['/one', '/two'], ok)
            app.get('/passes/:id', (_req: Wrong, _res: Wrong, next: Wrong) => next())
            const api = make.Router()
            app.use('/api', api.get('/list', ok).get('/', ok))
            const users = make.Router().get('/:user', ok)
            app.use('/tenants/:tenant', make.Router().use('/users', users))
            app.use(
              '/orgs/:org',
              make.Router().use('/v1', make.Router({ mergeParams: true }).use('/users', users)),
            )
            app.use('/flights/:from-:to', users)
            app.use(/^\/raw\/([^/]+)/, users)
            const admin: Wrong = make()
            app.use('/admin', admin.get('/jobs/:job', ok))
            return app
          },
          (origin) => fetch(origin + path),
        )
        expect(events.map(({ name }) => name)).to.deep.equal(['http.request.completed'])
        const [{ duration_ms, ...attributes }] = attributesOf(events) as [Wrong]
        expect(duration_ms).to.be.within(0, 60_000)
        expect(attributes).to.deep.equal({
          'http.request.method': 'GET',
          ...(route !== undefined && { 'http.route': route }),
          'http.response.status_code': route === undefined || path.startsWith('/passes') ? 404 : 200,
          'url.path': path.split('?')[0],
        })
      })
    }
  }

  const levels: readonly (readonly [what: string, status: number, options: Wrong, level: string])[] = [
    ['a success', 200, {}, 'info'],
    ['a mistake of the client', 404, {}, 'info'],
    ['a failure of the server', 500, {}, 'error'],
    ['a level of the application', 200, { level: () => 'debug' }, 'debug'],
    ['a level function that returns nothing', 503, { level: () => undefined }, 'error'],
    ['a level function that throws', 500, { level: () => JSON.parse('{') }, 'error'],
    ['a level function that is asynchronous', 500, { level: async () => JSON.parse('{') }, 'error'],
    ['a level that does not exist', 200, { level: () => 'notice' }, 'info'],
  ]
  for (const [what, status, options, level] of levels) {
    it(`httpTelemetry gives its event a level for ${what}`, async () => {
      const { events } = await eventsAfter(
        (telemetry) =>
          express().use(httpTelemetry(telemetry, options), (_req, res) => void res.status(status).end()),
        (origin) => fetch(origin),
      )
      expect(events.map((event) => event.level)).to.deep.equal([level])
    })
  }

  const actors: readonly (readonly [
    what: string,
    actor: HttpTelemetryOptions['actor'],
    expected: Wrong,
    reports: number,
  ])[] = [
    ['known at the start', () => ({ type: 'user', id: 7 }), { type: 'user', id: '7' }, 0],
    [
      'known after other middleware',
      ({ user }) => user && { type: 'user', id: user.id },
      { type: 'user', id: 'ada' },
      0,
    ],
    ['that throws until then', ({ user }) => ({ type: 'user', id: user.id }), { type: 'user', id: 'ada' }, 0],
    ['that is unknown', () => undefined, undefined, 0],
    ['that is null', () => null, undefined, 0],
    ['that throws', () => JSON.parse('{'), undefined, 1],
    ['that rejects', (async () => JSON.parse('{')) as Wrong, undefined, 1],
    ['without a type', (() => ({ id: 'ada' })) as Wrong, undefined, 1],
  ]
  for (const [what, actor, expected, reports] of actors) {
    it(`httpTelemetry sets an actor ${what}`, async () => {
      const { events, warnings } = await eventsAfter(
        (telemetry) =>
          express().use(httpTelemetry(telemetry, { actor }), (req: Wrong, res) => {
            req.user = { id: 'ada' }
            res.end()
          }),
        (origin) => fetch(origin),
      )
      expect(events.map((event) => event.actor)).to.deep.equal([expected])
      expect(warnings.filter((text) => text.includes('actor of httpTelemetry()'))).to.have.length(reports)
    })
  }

  it('httpTelemetry runs the request in its session, and set adds to its event', async () => {
    const { events } = await eventsAfter(
      (telemetry) =>
        express().use(
          httpTelemetry(telemetry, { actor: () => ({ type: 'user', id: 'u1' }) }),
          async (_req, res) => {
            await new Promise((resolve) => setTimeout(resolve, 5))
            telemetry.emit('order.placed')
            telemetry.set({ cached: true, 'http.route': '/forged', duration_ms: -1 })
            res.end()
          },
        ),
      (origin) => fetch(origin),
      undefined,
      2,
    )
    const [placed, completed] = events
    expect([placed?.name, completed?.name]).to.deep.equal(['order.placed', 'http.request.completed'])
    expect(placed?.sessionId).to.equal(completed?.sessionId)
    expect(placed?.actor).to.deep.equal({ type: 'user', id: 'u1' })
    expect(completed?.attributes).to.include({ cached: true, 'url.path': '/' })
    expect(completed?.attributes?.duration_ms).to.be.at.least(0)
  })

  const ignored: readonly (readonly [what: string, ignore: Wrong, count: number])[] = [
    ['returns true', (req: Wrong) => req.url === '/health', 0],
    ['returns false', () => false, 1],
    ['throws', () => JSON.parse('{'), 1],
    ['is asynchronous', async () => true, 1],
  ]
  for (const [what, ignore, count] of ignored) {
    it(`httpTelemetry asks an ignore function that ${what}`, async () => {
      const { events } = await eventsAfter(
        (telemetry) => express().use(httpTelemetry(telemetry, { ignore }), (_req, res) => void res.end()),
        (origin) => fetch(`${origin}/health`),
        undefined,
        count,
      )
      expect(events).to.have.length(count)
    })
  }

  it('httpTelemetry emits one event with the status of an error that is passed to next', async () => {
    const { events } = await eventsAfter(
      (telemetry) =>
        express()
          .set('env', 'test')
          .use(httpTelemetry(telemetry))
          .get('/fails', (_req, _res, next) => next(new Error('no stock')))
          .get('/throws', () => JSON.parse('{')),
      (origin) => Promise.all([fetch(`${origin}/fails`), fetch(`${origin}/throws`)]),
      undefined,
      2,
    )
    expect(events.map(({ level }) => level)).to.deep.equal(['error', 'error'])
    expect(attributesOf(events).map((attributes) => attributes['http.response.status_code'])).to.deep.equal([
      500, 500,
    ])
  })

  it('httpTelemetry emits one event for a request whose client disconnects before and during the response', async () => {
    const arrived: unknown[] = []
    const { events } = await eventsAfter(
      (telemetry) =>
        express().use(httpTelemetry(telemetry), (req, res) => {
          arrived.push(req.url)
          if (req.url === '/during') res.write('partial')
        }),
      async (origin) => {
        for (const path of ['/before', '/during']) {
          const socket = connectTo(Number(new URL(origin).port), '127.0.0.1')
          await once(socket, 'connect')
          socket.write(`GET ${path} HTTP/1.1\r\nHost: x\r\n\r\n`)
          if (path === '/during') await once(socket, 'data')
          else await until(() => arrived.includes(path))
          socket.destroy()
        }
      },
      undefined,
      2,
    )
    const statuses = attributesOf(events).map((attributes) => [
      attributes['url.path'],
      attributes['http.response.status_code'],
    ])
    expect(Object.fromEntries(statuses)).to.deep.equal({ '/before': 499, '/during': 200 })
    expect(events).to.have.length(2)
  })

  it('httpTelemetry emits one event for each manager, however often it is used', async () => {
    const other = recording()
    const second = other.builder.build()
    const { events } = await eventsAfter(
      (telemetry) => {
        const nested = express
          .Router()
          .use(httpTelemetry(telemetry))
          .get('/x', (_req, res) => void res.end())
        return express().use(httpTelemetry(telemetry), httpTelemetry(second)).use('/api', nested)
      },
      (origin) => fetch(`${origin}/api/x`),
    )
    expect(attributesOf(events).map((attributes) => attributes['http.route'])).to.deep.equal(['/api/x'])
    expect(attributesOf(other.events()).map((attributes) => attributes['http.route'])).to.deep.equal([
      '/api/x',
    ])
  })

  it('httpTelemetry works with Connect, where a request has no route', async () => {
    const { events } = await eventsAfter(
      (telemetry) =>
        connect()
          .use(httpTelemetry(telemetry) as Wrong)
          .use('/api', (_req: Wrong, res: Wrong) => res.end()) as Wrong,
      (origin) => fetch(`${origin}/api/x?a=b`),
    )
    const [{ duration_ms: _, ...attributes }] = attributesOf(events) as [Wrong]
    expect(attributes).to.deep.equal({
      'http.request.method': 'GET',
      'http.response.status_code': 200,
      'url.path': '/api/x',
    })
  })

  it('httpTelemetry works with HTTP/2, and for a stream that is canceled', async () => {
    const { builder, events } = recording()
    const middleware = httpTelemetry(builder.build())
    const arrived: unknown[] = []
    const served = await listenHttp2((req, res) =>
      middleware(req, res, () => {
        arrived.push(req.url)
        if (req.url?.startsWith('/done')) res.end('ok')
      }),
    )
    const session = await served.connect()
    const done = session.request({ ':path': '/done?a=b', ':method': 'ODD_METHOD' }, { endStream: true })
    done.resume()
    await once(done, 'end')
    const canceled = session.request({ ':path': '/never' })
    await until(() => arrived.includes('/never'))
    canceled.close()
    await until(() => events().length === 2)
    session.close()
    await served.close()
    expect(
      attributesOf(events()).map((attributes) => [
        attributes['http.request.method'],
        attributes['url.path'],
        attributes['http.response.status_code'],
      ]),
    ).to.deep.equal([
      ['_OTHER', '/done', 200],
      ['GET', '/never', 499],
    ])
  })

  const paths: readonly (readonly [what: string, target: string, path: string])[] = [
    ['a long path is cut', `/${'a'.repeat(4000)}`, `/${'a'.repeat(1022)}…`],
    ['an absolute target has only its path', 'http://user:pw@evil.example/p?q=secret', '/p'],
    ['an absolute target without a path is the root', 'http://evil.example?q=secret', '/'],
    ['the target of all resources stays', '*', '*'],
    ['a query that begins twice is left out', '/a?b?c', '/a'],
    [
      'a secret in the path is redacted by patterns',
      '/t/eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdefghijk',
      '/t/[jwt]',
    ],
  ]
  for (const [what, target, path] of paths) {
    it(`httpTelemetry writes url.path: ${what}`, async () => {
      const { events } = await eventsAfter(
        (telemetry) => {
          const middleware = httpTelemetry(telemetry)
          return (req, res) => middleware(req, res, () => res.end())
        },
        async (origin) => {
          const socket = connectTo(Number(new URL(origin).port), '127.0.0.1')
          socket.write(
            `${target === '*' ? 'OPTIONS' : 'GET'} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
          )
          socket.resume()
          await once(socket, 'close')
        },
        (builder) => builder.withRedaction({ patterns: COMMON_SECRET_PATTERNS }),
      )
      expect(attributesOf(events)[0]['url.path']).to.equal(path)
    })
  }

  it('httpTelemetry works with registries and required actors, and is sampled and kept with its session', async () => {
    const registry = KitTelemetryEvents.namespace('shop')
      .event('sold', { '~standard': { version: 1, vendor: 'x', validate: (value) => ({ value }) } })
      .build()
    const { events } = await eventsAfter(
      (telemetry) =>
        express().use(httpTelemetry(telemetry), (req, res) => {
          if (req.url === '/kept') telemetry.emit('shop.sold', { level: 'error', actor: { type: 'user' } })
          res.end()
        }),
      (origin) => Promise.all([fetch(`${origin}/kept`), fetch(`${origin}/dropped`)]),
      (builder) =>
        builder
          .addEvents(registry)
          .addActor('user', { required: true })
          .withSampling({ infoRate: 0, unit: 'session', keep: { level: 'error' } }),
      2,
    )
    expect(attributesOf(events).map((attributes) => attributes?.['url.path'])).to.deep.equal([
      undefined,
      '/kept',
    ])
  })

  it('httpTelemetry reports an event that the registry of the application rejects', async () => {
    const registry = KitTelemetryEvents.namespace('http')
      .event('request.completed', {
        '~standard': {
          version: 1,
          vendor: 'x',
          validate: () => ({ issues: [{ message: 'no', path: ['x'] }] }),
        },
      })
      .build()
    const { warnings } = await eventsAfter(
      (telemetry) => express().use(httpTelemetry(telemetry), (_req, res) => void res.end()),
      (origin) => fetch(origin),
      (builder) => builder.addEvents(registry),
      0,
    )
    expect(warnings.join()).to.include('the event of httpTelemetry() was ignored: the attributes of event')
  })

  it('httpTelemetry lets errors of later middleware through, and rejects invalid arguments', () => {
    const { builder } = recording()
    const middleware = httpTelemetry(builder.build())
    const fail = () => {
      throw new RangeError('from the handler')
    }
    const res: Wrong = { once() {}, socket: {}, headersSent: false }
    expect(() => middleware({ method: 'GET', url: '/' } as Wrong, res, fail)).to.throw(
      RangeError,
      'from the handler',
    )
    expect(() => httpTelemetry({} as Wrong)).to.throw('must be a manager of KitTelemetry')
    expect(() => httpTelemetry(builder.build(), { actors: () => {} } as Wrong)).to.throw(
      "has no option 'actors'",
    )
    expect(() => httpTelemetry(builder.build(), { level: 'info' } as Wrong)).to.throw(
      'httpTelemetry({ level }) must be a function',
    )
  })
})
