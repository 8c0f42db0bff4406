import type { RequestListener } from 'node:http'
import { createRequire } from 'node:module'
import connect from 'connect'
import express, { type Express, type RequestHandler } from 'express'
import { protectedResourceRouter } from '../../../src/express/protected-resource-router.ts'
import { createMcpAdapter, mcpAuth, mcpCors, mcpHandler, type NodeMiddleware } from '../../../src/index.ts'
import { build, ENTRY_POINTS, type EntryPoint, type Served, type Setup } from './entry-points.ts'
import { type Listening, listen } from './wire.ts'

/** Express 4, which has no declarations of its own here; what is used of it is as in Express 5. */
const express4: typeof express = createRequire(import.meta.url)('express4')

export interface Mounted {
  readonly path: string
  readonly middleware: NodeMiddleware
}

/** Where middleware can be mounted. */
export interface Framework {
  readonly name: string
  /** The path prefix that outer routers remove. */
  readonly prefix: string
  /** `true` if it has routes. */
  readonly routes: boolean
  mount(mounted: readonly Mounted[]): RequestListener
}

function onApp(make: () => Express): Framework['mount'] {
  return (mounted) => {
    const app = make().set('env', 'test') // keeps its error handler off the console
    for (const { path, middleware } of mounted) app.use(path, middleware as RequestHandler)
    return app
  }
}

/** Routers within routers; what is for the root stays there. */
function onNestedRouters(framework: typeof express): Framework['mount'] {
  return (mounted) => {
    const [app, outer, inner] = [framework().set('env', 'test'), framework.Router(), framework.Router()]
    app.use('/api', outer)
    outer.use('/v1', inner)
    for (const { path, middleware } of mounted) {
      if (path === '/') app.use(middleware as RequestHandler)
      else inner.use(path, middleware as RequestHandler)
    }
    return app
  }
}

const onConnect: Framework['mount'] = (mounted) => {
  const app = connect()
  for (const { path, middleware } of mounted) app.use(path, middleware as connect.NextHandleFunction)
  // Its own error handler writes to the console.
  return app.use(((error: { status?: number }, _req, res, _next) => {
    res.statusCode = error.status ?? 500
    res.end()
  }) as connect.ErrorHandleFunction) as RequestListener
}

const onBareServer: Framework['mount'] = (mounted) => (req, res) => {
  const run = (index: number): void =>
    mounted[index]?.middleware(req, res, index + 1 < mounted.length ? () => run(index + 1) : undefined)
  run(0)
}

const EXPRESS_5: Framework = { name: 'Express 5', prefix: '', routes: true, mount: onApp(express) }
const EXPRESS_4: Framework = { name: 'Express 4', prefix: '', routes: true, mount: onApp(express4) }
const CONNECT: Framework = { name: 'Connect', prefix: '', routes: true, mount: onConnect }
const BARE: Framework = { name: 'node:http', prefix: '', routes: false, mount: onBareServer }

export const FRAMEWORKS: readonly Framework[] = [EXPRESS_5, EXPRESS_4, CONNECT, BARE]

export const NESTED: readonly Framework[] = [
  {
    name: 'nested routers of Express 5',
    prefix: '/api/v1',
    routes: true,
    mount: onNestedRouters(express),
  },
  {
    name: 'nested routers of Express 4',
    prefix: '/api/v1',
    routes: true,
    mount: onNestedRouters(express4),
  },
]

export interface Host extends EntryPoint {
  /** `true` if `mcpCors` is in front and responds to every OPTIONS request. */
  readonly cors: boolean
  /** The middleware in front of `/mcp`. */
  readonly prefix: string
}

type Parser = readonly [name: string, parsers: readonly unknown[], parsed: boolean]

const NO_PARSER: Parser = ['', [], false]

/** `parsed` if the body parser itself refuses invalid JSON. */
function parsersOf(framework: typeof express): readonly Parser[] {
  const any = { type: () => true, limit: '16mb' }
  return [
    NO_PARSER,
    ['express.json', [framework.json({ limit: '16mb' })], true],
    [
      'all four parsers',
      [framework.json(), framework.urlencoded({ extended: true }), framework.text(), framework.raw()],
      true,
    ],
    ['express.urlencoded', [framework.urlencoded({ extended: true })], false],
    ['express.text', [framework.text(any)], false],
    ['express.raw', [framework.raw(any)], false],
  ]
}

/** One framework with one set of parsers, for `mcpHandler` alone and behind `mcpCors` and `mcpAuth`. */
function hostsOn({ name, prefix, mount }: Framework, [parser, parsers, parsed]: Parser): Host[] {
  const start = async (...middleware: NodeMiddleware[]): Promise<Served> => {
    const all = [...(parsers as NodeMiddleware[]), ...middleware]
    const listening = await listen(mount(all.map((one) => ({ path: '/mcp', middleware: one }))))
    return {
      ...listening,
      send: (request) => listening.send({ ...request, path: `${prefix}${request.path ?? '/mcp'}` }),
    }
  }
  const behind = parser === '' ? '' : `${parser}, `
  const common = { prefix, parsed, wire: true }
  return [
    {
      ...common,
      name: `${name}: ${behind}mcpHandler`,
      auth: false,
      cors: false,
      serve: (setup) => start(mcpHandler(createMcpAdapter(setup))),
    },
    {
      ...common,
      name: `${name}: ${behind}mcpCors, mcpAuth, mcpHandler`,
      auth: true,
      cors: true,
      serve: (setup) => {
        const adapter = build(setup)
        return start(mcpCors(), mcpAuth(adapter), mcpHandler(adapter))
      },
    },
  ]
}

/** Everything that can serve an adapter. The entry points come first, and the first of them is the web-standard handler. */
export const HOSTS: readonly Host[] = [
  ...ENTRY_POINTS.map((entryPoint) => ({
    ...entryPoint,
    prefix: '',
    cors: entryPoint.name.includes('mcpCors'),
  })),
  ...parsersOf(express).flatMap((parser) => hostsOn(EXPRESS_5, parser)),
  ...parsersOf(express4).flatMap((parser) => hostsOn(EXPRESS_4, parser)),
  ...parsersOf(express).flatMap((parser) => hostsOn(CONNECT, parser)),
  ...NESTED.flatMap((framework) => hostsOn(framework, NO_PARSER)),
]

/** A whole application: the metadata document at the root, the MCP route at `path`. */
export async function serveWhole(
  { mount }: Framework,
  path: string,
  setup: Setup,
  style: 'builder' | 'function',
): Promise<Listening> {
  const adapter = style === 'builder' ? build(setup) : createMcpAdapter(setup)
  const route = [mcpCors(), mcpAuth(adapter), mcpHandler(adapter)]
  return await listen(
    mount([
      { path: '/', middleware: protectedResourceRouter(adapter) },
      ...route.map((middleware) => ({ path, middleware })),
    ]),
  )
}
