// Serves the route handlers of Next.js as Next.js calls them: by path and method, with a web-standard request.
// usage: node serve-route-handlers.js <module of /mcp> <module of the metadata document>
import { pathToFileURL } from 'node:url'
import { serve } from '@hono/node-server'

type RouteHandler = (request: Request, context: { params: Promise<object> }) => Response | Promise<Response>
type RouteModule = Readonly<Record<string, RouteHandler | undefined>>

const [mcp, metadata] = (await Promise.all(
  process.argv.slice(2).map((file) => import(pathToFileURL(file).href)),
)) as [RouteModule, RouteModule]

const WELL_KNOWN = /^\/\.well-known\/oauth-protected-resource(?:\/|$)/

serve({
  port: Number(process.env.PORT),
  hostname: '127.0.0.1',
  async fetch(request) {
    const { pathname } = new URL(request.url)
    if (pathname.length > 1 && pathname.endsWith('/'))
      return new Response(null, { status: 308, headers: { location: pathname.slice(0, -1) } })
    const route = pathname === '/mcp' ? mcp : WELL_KNOWN.test(pathname) ? metadata : undefined
    if (route === undefined) return new Response('Not Found', { status: 404 })
    const handler = route[request.method === 'HEAD' ? 'GET' : request.method]
    if (handler === undefined) return new Response(null, { status: 405 })
    return await handler(request, { params: Promise.resolve({}) })
  },
})
