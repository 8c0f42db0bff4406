import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { Agent, type IncomingMessage, request, Server, type ServerResponse } from 'node:http'
import { Server as TlsServer } from 'node:https'
import type { Server as NetServer } from 'node:net'
import { OBSERVER } from '../events/event.ts'
import { type ObservedRequest, observedRequest } from './observed-request.ts'

/** The function through which the transport finds the request that it runs in. */
const CURRENT = Symbol.for('mcp-gatekit.dev.request')

/** The maximum number of events that wait to be sent. Later ones are dropped. */
const MAX_WAITING = 2000
const BATCH = 200
const WINDOW_MS = 20
const TIMEOUT_MS = 2000

/**
 * Observes the HTTP requests of this process, and sends an event for each request of an MCP client to the console. It listens to
 * the diagnostics channels of Node.js, so the server does not change.
 * @param feedUrl the URL that takes events
 * @returns a function that stops
 */
export function observeRequests(feedUrl: string): () => void {
  const current = new AsyncLocalStorage<ObservedRequest>()
  const send = feedTo(feedUrl)
  let count = 0

  const started = (message: unknown): void => {
    try {
      const { request: req, response: res } = message as {
        request: IncomingMessage
        response: ServerResponse
      }
      const observed = observedRequest(`${process.pid}-${++count}`, req, res)
      current.enterWith(observed)
      res.once('close', () => send(() => observed.event(feedUrl)))
    } catch {
      // The server must not notice the observer.
    }
  }
  const listening = (message: unknown): void => {
    const { server } = message as { server: NetServer }
    if (server instanceof Server || server instanceof TlsServer) send(() => listeningEvent(server))
  }
  const findCurrent = (): ObservedRequest | undefined => {
    const observed = current.getStore()
    if (observed !== undefined) observed.hasEvents = true
    return observed
  }

  Object.defineProperty(globalThis, CURRENT, { value: findCurrent, configurable: true })
  subscribe('http.server.request.start', started)
  subscribe('tracing:net.server.listen:asyncEnd', listening)
  return () => {
    unsubscribe('http.server.request.start', started)
    unsubscribe('tracing:net.server.listen:asyncEnd', listening)
    Reflect.deleteProperty(globalThis, CURRENT)
  }
}

/** Returns the event of a server that has begun to listen, unless it listens on a pipe. */
function listeningEvent(server: NetServer): object | undefined {
  const listening = server.address()
  if (listening === null || typeof listening === 'string') return undefined
  const { address, port } = listening
  const time = new Date().toISOString()
  return { name: 'dev.listening', time, level: 'info', sessionId: 'dev', attributes: { address, port } }
}

/** Returns a function that sends events in batches. It never keeps the process alive, and never fails. */
function feedTo(url: string): (make: () => object | undefined) => void {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const waiting: object[] = []
  let isBusy = false
  const sendSoon = (): void => {
    if (isBusy || waiting.length === 0) return
    isBusy = true
    setTimeout(send, WINDOW_MS).unref()
  }
  const send = (): void => {
    const body = JSON.stringify({ sender: OBSERVER, events: waiting.splice(0, BATCH) })
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) }
    const req = request(url, { method: 'POST', agent, headers, timeout: TIMEOUT_MS })
    req.once('socket', (socket) => socket.unref())
    req.once('timeout', () => req.destroy())
    req.once('response', (res) => res.resume())
    req.on('error', () => undefined)
    req.once('close', () => {
      isBusy = false
      sendSoon()
    })
    req.end(body)
  }
  return (make) => {
    try {
      const event = waiting.length < MAX_WAITING ? make() : undefined
      if (event === undefined) return
      waiting.push(event)
      sendSoon()
    } catch {
      // An event that cannot be made is left out.
    }
  }
}
