import { randomBytes, timingSafeEqual } from 'node:crypto'
import { readdir, readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { bodyOf, forLoopbackHosts, listenOnLoopback, type Port, refuse, stopServer } from '../loopback.ts'
import { readFeed } from './events/event.ts'
import type { EventLog } from './events/event-log.ts'
import { PAGE_DOCUMENT } from './page-document.ts'
import { PAGE_STYLE } from './page-style.ts'

/** The running server of the console. */
export type ConsoleServer = Awaited<ReturnType<typeof startConsoleServer>>

/** The folder with the modules of the page, which are one file in the bundled package. */
const MODULES = new URL('./page/', import.meta.url)

const MAX_FEED_BYTES = 32 * 1024 * 1024
/** The maximum size of unread messages before a page is disconnected. It reconnects, and gets all events. */
const MAX_UNREAD_BYTES = 32 * 1024 * 1024
/** The maximum number of open pages. Each one can have `MAX_UNREAD_BYTES` unread. */
const MAX_PAGES = 32
const KEEP_ALIVE_MS = 15_000
/** The maximum time that `close` waits for pages to read the last message. */
const CLOSE_TIMEOUT_MS = 300

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

/** Called when a process of the server has started. Returns a function that is called when it has ended. */
export type OnProcess = (pid: number) => (exitCode: number | undefined) => void

/** Serves the page, its event stream, and the feed of the transport on 127.0.0.1. Rejects other origins. */
export async function startConsoleServer(
  log: EventLog,
  port: Port,
  onProcess: OnProcess = () => () => undefined,
) {
  const key = randomBytes(16).toString('hex')
  const files = await pageFiles()
  const streams = new Set<ServerResponse>()

  const handle: Handle = (req, res) => {
    const path = req.url?.split('?', 1)[0] ?? ''
    const isPost = req.method === 'POST'
    if (isForeignPage(req) && !(isLink(req) && files.has(path)))
      return refuse(res, 403, 'Requests from other origins are not allowed')
    if (isFeed(path, key)) return isPost ? takeFeed(req, res, log) : notAllowed(res, 'POST')
    if (isFeed(path, `${key}/process`))
      return isPost ? followProcess(req, res, onProcess) : notAllowed(res, 'POST')
    const file = files.get(path)
    if (file === undefined && path !== '/events') return refuse(res, 404, 'Not found')
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
  // The server closes no idle connection, because the feed would lose the events that it sends over it at that moment.
  server.keepAliveTimeout = 0
  // The request of `followProcess` lasts as long as its process.
  server.requestTimeout = 0
  const origin = `http://127.0.0.1:${await listenOnLoopback(server, port, 'port')}`
  const keepAlive = setInterval(() => {
    for (const res of streams) res.write(':\n\n')
  }, KEEP_ALIVE_MS).unref()
  return {
    /** The URL of the page. */
    url: `${origin}/`,
    /** The URL to which the transport posts. Its path is secret, so that other programs cannot send events. */
    feedUrl: `${origin}/feed/${key}`,
    async close(): Promise<void> {
      clearInterval(keepAlive)
      // Pages must get the last message.
      const ends = [...streams].map((res) => new Promise<void>((resolve) => void res.end(resolve)))
      await Promise.race([Promise.all(ends), new Promise((resolve) => setTimeout(resolve, CLOSE_TIMEOUT_MS))])
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

/** Returns `true` if a web page of another origin sends the request. */
function isForeignPage({ headers }: IncomingMessage): boolean {
  const { host, origin, 'sec-fetch-site': site } = headers
  if (origin !== undefined && origin !== `http://${host}`) return true
  return site !== undefined && !['same-origin', 'none'].includes(String(site))
}

/** Returns `true` for the request of a window, as after a click on a link. */
function isLink({ headers }: IncomingMessage): boolean {
  return headers.origin === undefined && headers['sec-fetch-mode'] === 'navigate'
}

function isFeed(path: string, key: string): boolean {
  const [given, expected] = [Buffer.from(path), Buffer.from(`/feed/${key}`)]
  return given.length === expected.length && timingSafeEqual(given, expected)
}

async function takeFeed(req: IncomingMessage, res: ServerResponse, log: EventLog): Promise<void> {
  const body = await bodyOf(req, MAX_FEED_BYTES)
  if (body === undefined) return refuse(res, 413, 'The request body is too large', { Connection: 'close' })
  const feed = readFeed(body)
  if (feed === undefined) return refuse(res, 400, 'Invalid event feed')
  log.add(feed)
  res.writeHead(204).end()
}

/** Waits for the end of the process that has sent the request. */
async function followProcess(req: IncomingMessage, res: ServerResponse, onProcess: OnProcess): Promise<void> {
  const ended = onProcess(Number(req.headers['x-pid']))
  res.writeHead(200).flushHeaders()
  let code = ''
  try {
    for await (const chunk of req) code = `${code}${chunk}`.slice(0, 8)
  } catch {
    // A signal has ended the process.
  }
  ended(code === '' ? undefined : Number(code))
  res.end()
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
  const stopListening = log.listen((message) => {
    res.write(message)
    if (res.writableLength > MAX_UNREAD_BYTES) res.destroy()
  })
  streams.add(res)
  res.once('close', () => {
    stopListening()
    streams.delete(res)
  })
}

function notAllowed(res: ServerResponse, allowed: string): void {
  refuse(res, 405, 'Method not allowed', { Allow: allowed })
}
