import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { EventLog } from './event-log.ts'
import { readFeed } from './feed.ts'
import { forLoopbackHosts, listenOnLoopback, type Port, refuse, stopServer } from './loopback.ts'
import { PAGE_DOCUMENT } from './page-document.ts'
import { PAGE_STYLE } from './page-style.ts'

/** The console's server. */
export interface ConsoleServer {
  /** Where the page is. */
  readonly url: string
  /** Where the transport posts. Its path is a secret, so that nobody else can make events up. */
  readonly feedUrl: string
  close(): Promise<void>
}

/** Where the modules of the page are: as they were compiled, or in one where the package was bundled. */
const MODULES = new URL('./page/', import.meta.url)

const MAX_FEED_BYTES = 32 * 1024 * 1024
/** What a page may leave unread before it is let go: it comes again, and is told what it missed. */
const MAX_UNREAD_BYTES = 16 * 1024 * 1024
/** The maximum number of pages that are open at the same time. Each one can have `MAX_UNREAD_BYTES` unread. */
const MAX_PAGES = 32
const KEEP_ALIVE_MS = 15_000
/** How long the end waits for pages that do not read. */
const FAREWELL_MS = 300

const HEADERS = {
  'Cache-Control': 'no-store',
  'Content-Security-Policy':
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
}

type Handle = (req: IncomingMessage, res: ServerResponse) => void | Promise<void>

/** Serves the page, its live stream and the feed of the transport on 127.0.0.1, to this machine's own pages alone. */
export async function startConsoleServer(log: EventLog, port: Port): Promise<ConsoleServer> {
  const key = randomBytes(16).toString('hex')
  const files = await pageFiles()
  const streams = new Set<ServerResponse>()

  const handle: Handle = (req, res) => {
    const path = req.url?.split('?', 1)[0] ?? ''
    const isPost = req.method === 'POST'
    if (isForeignPage(req)) return refuse(res, 403, 'Pages of other origins have no business here')
    if (isFeed(path, key)) return isPost ? takeFeed(req, res, log) : notAllowed(res, 'POST')
    const file = files.get(path)
    if (file === undefined && path !== '/events') return refuse(res, 404, 'Nothing is here')
    if (req.method !== 'GET' && req.method !== 'HEAD') return notAllowed(res, 'GET, HEAD')
    if (file === undefined && streams.size >= MAX_PAGES) return refuse(res, 503, 'Too many pages are open')
    if (file === undefined) return stream(req, res, log, streams)
    res.writeHead(200, { ...HEADERS, 'Content-Type': file.type })
    res.end(req.method === 'HEAD' ? undefined : file.text)
  }
  const server = createServer(
    forLoopbackHosts((req, res) => {
      Promise.resolve(handle(req, res)).catch(() => res.destroy())
    }),
  )
  const origin = `http://127.0.0.1:${await listenOnLoopback(server, port, 'port')}`
  const keepAlive = setInterval(() => {
    for (const res of streams) res.write(':\n\n')
  }, KEEP_ALIVE_MS).unref()
  return {
    url: `${origin}/`,
    feedUrl: `${origin}/feed/${key}`,
    async close() {
      clearInterval(keepAlive)
      // What was said last is still to be heard.
      const ends = [...streams].map((res) => new Promise<void>((heard) => void res.end(heard)))
      await Promise.race([Promise.all(ends), new Promise((resolve) => setTimeout(resolve, FAREWELL_MS))])
      await stopServer(server)
    },
  }
}

async function pageFiles(): Promise<ReadonlyMap<string, { type: string; text: string }>> {
  const names = (await readdir(MODULES)).filter((name) => name.endsWith('.js'))
  const modules = await Promise.all(
    names.map(async (name) => {
      const text = await readFile(new URL(name, MODULES), 'utf8')
      return [`/page/${name}`, { type: 'text/javascript; charset=utf-8', text }] as const
    }),
  )
  return new Map([
    ...modules,
    ['/', { type: 'text/html; charset=utf-8', text: PAGE_DOCUMENT }],
    ['/style.css', { type: 'text/css; charset=utf-8', text: PAGE_STYLE }],
  ])
}

/** Whether a page of another origin makes this request. Following a link to the console is no such thing. */
function isForeignPage({ headers }: IncomingMessage): boolean {
  const { host, origin, 'sec-fetch-site': site, 'sec-fetch-mode': mode } = headers
  if (origin !== undefined && origin !== `http://${host}`) return true
  return site !== undefined && !['same-origin', 'none'].includes(String(site)) && mode !== 'navigate'
}

function isFeed(path: string, key: string): boolean {
  const [given, expected] = [Buffer.from(path), Buffer.from(`/feed/${key}`)]
  return given.length === expected.length && timingSafeEqual(given, expected)
}

async function takeFeed(req: IncomingMessage, res: ServerResponse, log: EventLog): Promise<void> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of req) {
    bytes += chunk.length
    if (bytes > MAX_FEED_BYTES) return refuse(res, 413, 'Too much at once', { Connection: 'close' })
    chunks.push(chunk)
  }
  const feed = readFeed(Buffer.concat(chunks).toString())
  if (feed === undefined) return refuse(res, 400, 'That is no feed of events')
  log.add(feed)
  res.writeHead(204).end()
}

function stream(
  req: IncomingMessage,
  res: ServerResponse,
  log: EventLog,
  streams: Set<ServerResponse>,
): void {
  res.writeHead(200, { ...HEADERS, 'Content-Type': 'text/event-stream', 'X-Accel-Buffering': 'no' })
  if (req.method === 'HEAD') return void res.end()
  res.write('retry: 500\n\n')
  const lastId = req.headers['last-event-id']
  const silence = log.listen(
    (message) => {
      res.write(message)
      if (res.writableLength > MAX_UNREAD_BYTES) res.destroy()
    },
    typeof lastId === 'string' ? lastId : undefined,
  )
  streams.add(res)
  res.once('close', () => {
    silence()
    streams.delete(res)
  })
}

function notAllowed(res: ServerResponse, allowed: string): void {
  refuse(res, 405, 'That method is not for this', { Allow: allowed })
}
