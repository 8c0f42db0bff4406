/** The network of the world. It replaces the sockets of Node below HTTP and Redis, so that links can be slow, cut, or partitioned. */
import { AsyncResource } from 'node:async_hooks'
import http from 'node:http'
import https from 'node:https'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import net from 'node:net'
import { Duplex } from 'node:stream'
import { Random } from './random.ts'
import { currentProgram, Machine, type Program, time } from './time.ts'

const require = createRequire(import.meta.url)

/** Bytes on the way, beyond which a writer waits. */
const WINDOW_BYTES = 262_144
/** The time after which Linux gives up connecting. */
const CONNECT_TIMEOUT_MS = 127_000
const MIN_LATENCY_MS = 1

type Deliver = () => void

/** The state of the way between two machines. */
class Link {
  isPartitioned = false
  /** The factor by which the link is slower than usual. */
  slowness = 1
  /** The probability that a connection is cut when a response begins. */
  cuts = 0
  readonly #held: Deliver[] = []

  hold(deliver: Deliver): void {
    this.#held.push(deliver)
  }

  heal(): void {
    this.isPartitioned = false
    for (const deliver of this.#held.splice(0)) deliver()
  }
}

/** One end of a connection. It has the methods of `net.Socket` that Node's HTTP and ioredis use. */
export class SimulatedSocket extends Duplex {
  readonly program: Program
  readonly remoteAddress: string
  readonly remotePort = 40_000
  readonly localPort = 443
  readonly remoteFamily = 'IPv4'
  readonly encrypted = false
  readonly #link: Link
  readonly #resource = new AsyncResource('Socket')
  connecting = true
  timeout = 0
  bytesRead = 0
  bytesWritten = 0
  peer: SimulatedSocket | undefined
  /** `true` when the first bytes of an answer are on their way. */
  hasAnswered = false
  #arrivesAtMs = 0
  #inFlight = 0
  #blocked: (() => void) | undefined
  #idle: ReturnType<typeof setTimeout> | undefined
  #isGone = false

  constructor(program: Program, remote: string, link: Link) {
    super({ allowHalfOpen: true })
    this.program = program
    this.remoteAddress = remote
    this.#link = link
    network.sockets.add(this)
    program.connections.add(this)
  }

  /** Runs code of the process that has this end. */
  enter(action: () => void): void {
    if (!this.program.isAlive) return
    try {
      this.#resource.runInAsyncScope(() => this.program.wake(action))
    } catch (error) {
      time.failures.push(error)
    }
  }

  /** Delivers something to the other end, after everything that was sent before. */
  send(action: (peer: SimulatedSocket) => void): void {
    const { peer } = this
    if (peer === undefined) return
    const latency = network.latency(this.#link)
    this.#arrivesAtMs = Math.max(this.#arrivesAtMs, time.nowMs + latency)
    const deliver = (): void => {
      if (this.#link.isPartitioned) this.#link.hold(deliver)
      else action(peer)
    }
    network.at(this.#arrivesAtMs, deliver)
  }

  override _write(chunk: Buffer, _encoding: string, done: (error?: Error) => void): void {
    this.#touch()
    const { peer } = this
    if (peer === undefined) {
      this.once('connect', () => this._write(chunk, _encoding, done))
      return
    }
    this.bytesWritten += chunk.length
    if (!this.hasAnswered && network.isServer(this)) {
      this.hasAnswered = true
      if (network.random.chance(this.#link.cuts)) {
        network.cut++
        this.reset()
        peer.reset()
        done()
        return
      }
    }
    this.#inFlight += chunk.length
    this.send(() => {
      if (peer.#isGone) {
        // A closed connection is reset.
        peer.send(() => this.reset())
        return
      }
      peer.enter(() => {
        peer.#touch()
        peer.hasAnswered = false
        peer.bytesRead += chunk.length
        peer.push(chunk)
      })
      this.#inFlight -= chunk.length
      const blocked = this.#blocked
      this.#blocked = undefined
      if (blocked !== undefined) this.enter(blocked)
    })
    if (this.#inFlight < WINDOW_BYTES) done()
    else this.#blocked = done
  }

  override _read(): void {
    // The writer does not wait for the reader: nothing here sends more than a test can keep.
  }

  override _final(done: (error?: Error) => void): void {
    if (this.peer === undefined) {
      done()
      return
    }
    this.send((peer) => peer.enter(() => void peer.push(null)))
    done()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#leave()
    this.send((peer) => peer.enter(() => void (peer.readableEnded || peer.destroyed || peer.push(null))))
    done(error)
  }

  #leave(): void {
    this.#isGone = true
    clearTimeout(this.#idle)
    network.sockets.delete(this)
    this.program.connections.delete(this)
  }

  /** Ends the connection as a TCP reset does. */
  reset(): void {
    if (this.#isGone) return
    this.#leave()
    this.enter(() =>
      this.destroy(Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET', syscall: 'read' })),
    )
  }

  /** The process of this end was killed: the other end learns it. */
  abandon(): void {
    this.#leave()
    // Node keeps a parser, and all that it can reach, until its connection ends.
    const held = this as unknown as {
      parser?: { close(): void } | null
      _httpMessage?: { parser: unknown } | null
    }
    held.parser?.close()
    // Otherwise, Node would use the closed parser for another connection, which would then read nothing.
    if (held._httpMessage) held._httpMessage.parser = null
    held.parser = null
    this.send((peer) => peer.reset())
  }

  #touch(): void {
    if (this.timeout > 0) this.#idle?.refresh()
  }
  setTimeout(ms: number, callback?: () => void): this {
    this.timeout = ms
    clearTimeout(this.#idle)
    if (ms > 0) {
      if (callback !== undefined) this.once('timeout', callback)
      this.#idle = setTimeout(() => this.emit('timeout'), ms).unref()
    } else if (callback !== undefined) this.off('timeout', callback)
    return this
  }
  destroySoon(): void {
    if (this.writable) this.end()
    if (this.writableFinished) this.destroy()
    else this.once('finish', () => this.destroy())
  }
  setNoDelay(): this {
    return this
  }
  setKeepAlive(): this {
    return this
  }
  ref(): this {
    return this
  }
  unref(): this {
    return this
  }
  address(): object {
    return { address: this.remoteAddress, port: 443, family: 'IPv4' }
  }
}

/** The part of a machine that accepts connections. */
export interface Listener {
  readonly machine: Machine
  accept(socket: SimulatedSocket): void
}

/** Chooses one of the machines of a host, or none. */
export type Balance = (hint: string) => Listener | undefined

/** All connections, the links between machines, and the hosts that accept connections. */
class Network {
  readonly sockets = new Set<SimulatedSocket>()
  readonly random: Random = new Random(1)
  /** Connections that were cut on purpose. */
  cut = 0
  readonly #hosts = new Map<string, Balance>()
  readonly #links = new Map<string, Link>()
  readonly #world = new Machine('world').program
  /** The machines to which clients connect, to tell requests from responses. */
  readonly #servers = new WeakSet<SimulatedSocket>()
  /** The MCP session of the next request. */
  hint = ''
  /** The machine that has begun each session, as a balancer learns it from responses. */
  readonly affinity = new Map<string, Machine>()

  serve(host: string, balance: Balance): void {
    this.#hosts.set(host, balance)
  }

  link(one: string, other: string): Link {
    const name = [one, other].sort().join(' – ')
    let link = this.#links.get(name)
    if (link === undefined) {
      link = new Link()
      this.#links.set(name, link)
    }
    return link
  }

  latency({ slowness }: Link): number {
    return MIN_LATENCY_MS + Math.floor(this.random.wait(3) * slowness)
  }

  at(atMs: number, action: () => void): void {
    this.#world.run(() => setTimeout(action, atMs - time.nowMs))
  }

  /** Runs code of the world, which belongs to no machine. */
  run<T>(action: () => T): T {
    return this.#world.run(action)
  }

  isServer(socket: SimulatedSocket): boolean {
    return this.#servers.has(socket)
  }

  connect(host: string): SimulatedSocket {
    const program = currentProgram() ?? this.#world
    const { hint } = this
    const balance = this.#hosts.get(host)
    const socket = new SimulatedSocket(program, host, this.link(program.machine.name, host))
    const fail = (code: string): void => {
      socket.enter(() =>
        socket.destroy(Object.assign(new Error(`connect ${code} ${host}`), { code, syscall: 'connect' })),
      )
    }
    const late = this.run(() =>
      setTimeout(() => {
        if (socket.connecting) fail('ETIMEDOUT')
      }, CONNECT_TIMEOUT_MS),
    )
    const open = (): void => {
      if (socket.destroyed || !program.isAlive) {
        clearTimeout(late)
        return
      }
      const listener = balance?.(hint)
      if (listener === undefined) {
        clearTimeout(late)
        fail(balance === undefined ? 'ENOTFOUND' : 'ECONNREFUSED')
        return
      }
      const link = this.link(program.machine.name, listener.machine.name)
      if (link.isPartitioned) {
        link.hold(open)
        return
      }
      clearTimeout(late)
      const { program: serving } = listener.machine
      const served = serving.run(() => new SimulatedSocket(serving, program.machine.name, link))
      this.#servers.add(served)
      served.connecting = false
      served.peer = socket
      socket.peer = served
      socket.connecting = false
      served.enter(() => listener.accept(served))
      socket.enter(() => {
        socket.emit('connect')
        socket.emit('ready')
      })
    }
    this.at(time.nowMs + this.latency(this.link(program.machine.name, host)), open)
    return socket
  }
}

export const network: Network = new Network()

type Options = { readonly host?: string; readonly hostname?: string }

function replaceSockets(): void {
  const connect = (...args: unknown[]): SimulatedSocket => {
    const [first] = args as [Options | number]
    const host = typeof first === 'number' ? String(args[1]) : String(first.hostname ?? first.host)
    const socket = network.connect(host)
    const callback = args.findLast((one) => typeof one === 'function') as (() => void) | undefined
    if (callback !== undefined && typeof first === 'number') socket.once('connect', callback)
    return socket
  }
  Object.assign(net, { connect, createConnection: connect })
  for (const module of [http, https]) Object.assign(module.Agent.prototype, { createConnection: connect })
  Object.assign(require('node:tls'), { connect })
  syncBuiltinESMExports()
}

/**
 * The `fetch` of every process. It is a model: it sends each request on a connection of its own with `node:http`, and has neither
 * pools, nor decompression, nor a limit for headers. It replaces the `fetch` of Node, whose behavior other tests check.
 */
async function simulatedFetch(input: Request | string | URL, init?: RequestInit): Promise<Response> {
  const request = new Request(input, {
    ...init,
    // The class would keep a listener on the signal of each request until it is collected.
    signal: null,
    ...(init?.body instanceof ReadableStream && { duplex: 'half' }),
  } as RequestInit)
  const body = request.body === null ? undefined : Buffer.from(await request.arrayBuffer())
  // A request follows the signal only until the garbage collector removes it.
  const signal = init?.signal ?? (input instanceof Request ? input.signal : new AbortController().signal)
  let url = new URL(request.url)
  let method = request.method
  let content = body
  for (let redirects = 0; ; redirects++) {
    const response = await exchange(url, method, request, content, signal)
    const location = response.headers.get('location')
    if (response.status < 300 || response.status > 399 || location === null || request.redirect === 'manual')
      return response
    if (request.redirect === 'error' || redirects === 20) throw new TypeError('fetch failed')
    await response.body?.cancel()
    url = new URL(location, url)
    if (response.status !== 307 && response.status !== 308 && method !== 'HEAD') {
      method = 'GET'
      content = undefined
    }
  }
}

/** Headers that a browser or an operating system would add for a machine. */
export const addedHeaders: Map<string, (url: URL) => Readonly<Record<string, string>>> = new Map()

function exchange(
  url: URL,
  method: string,
  request: Request,
  body: Buffer | undefined,
  signal: AbortSignal,
): Promise<Response> {
  const machine = currentProgram()?.machine.name ?? ''
  return new Promise((resolve, reject) => {
    const fail = (cause: unknown): void => {
      if (signal.aborted) reject(signal.reason)
      else reject(Object.assign(new TypeError('fetch failed'), { cause }))
    }
    if (signal.aborted) {
      fail(undefined)
      return
    }
    network.hint = request.headers.get('mcp-session-id') ?? ''
    const outgoing = http.request({
      agent: false,
      hostname: url.hostname,
      path: url.pathname + url.search,
      method,
      headers: {
        host: url.host,
        accept: '*/*',
        'accept-language': '*',
        'user-agent': 'node',
        ...Object.fromEntries(request.headers),
        ...addedHeaders.get(machine)?.(url),
        ...(body !== undefined && { 'content-length': String(body.length) }),
      },
      createConnection: () => network.connect(url.hostname) as unknown as net.Socket,
    })
    network.hint = ''
    let stream: ReadableStreamDefaultController<Uint8Array> | undefined
    const abort = (): void => {
      outgoing.destroy()
      fail(undefined)
      try {
        stream?.error(signal.reason)
      } catch {
        // The body is complete.
      }
    }
    signal.addEventListener('abort', abort, { once: true })
    outgoing.on('error', fail)
    outgoing.on('upgrade', (_response, socket) => {
      socket.destroy()
      fail(new Error('unexpected upgrade'))
    })
    outgoing.on('response', (incoming) => {
      const session = incoming.headers['mcp-session-id']
      const { peer } = incoming.socket as unknown as SimulatedSocket
      if (typeof session === 'string' && peer !== undefined)
        network.affinity.set(session, peer.program.machine)
      const headers = new Headers()
      for (let index = 0; index < incoming.rawHeaders.length; index += 2)
        headers.append(String(incoming.rawHeaders[index]), String(incoming.rawHeaders[index + 1]))
      const { statusCode: status = 500 } = incoming
      const isEmpty = [204, 205, 304].includes(status) || method === 'HEAD'
      const content = isEmpty
        ? null
        : new ReadableStream<Uint8Array>({
            start(controller) {
              stream = controller
              incoming.on('data', (chunk: Buffer) => controller.enqueue(new Uint8Array(chunk)))
              incoming.on('end', () => {
                signal.removeEventListener('abort', abort)
                try {
                  controller.close()
                } catch {
                  // The body was aborted.
                }
              })
              const broken = (cause: unknown): void => {
                signal.removeEventListener('abort', abort)
                try {
                  controller.error(Object.assign(new TypeError('terminated'), { cause }))
                } catch {
                  // The body was aborted.
                }
              }
              incoming.on('error', broken)
              incoming.on('aborted', broken)
            },
            cancel() {
              signal.removeEventListener('abort', abort)
              outgoing.destroy()
            },
          })
      if (isEmpty) {
        incoming.resume()
        signal.removeEventListener('abort', abort)
      }
      const response = new Response(content, { status, headers, statusText: incoming.statusMessage ?? '' })
      Object.defineProperty(response, 'url', { value: url.href })
      resolve(response)
    })
    outgoing.end(body)
  })
}

/** A host of one machine that serves HTTP. */
export function serveHttp(machine: Machine, host: string, server: http.Server): void {
  network.serve(host, () => (machine.program.isAlive ? listenerOf(machine, server) : undefined))
}

/** The part of `net.Server` that counts connections, so that `close` waits for them. */
interface Counting {
  _connections: number
  _emitCloseIfDrained(): void
}

export function listenerOf(machine: Machine, server: http.Server): Listener {
  const counting = server as unknown as Counting
  return {
    machine,
    accept(socket) {
      counting._connections++
      socket.once('close', () => {
        counting._connections--
        counting._emitCloseIfDrained()
      })
      server.emit('connection', socket)
    },
  }
}

/** Creates a server that counts its connections, without looking for slow ones by the real time. */
export function createServer(listener: http.RequestListener): http.Server {
  const server = http.createServer({ connectionsCheckingInterval: 2 ** 31 - 1 }, listener)
  server.emit('listening')
  // The real timer would keep the servers of killed processes in memory.
  const [timer] = Object.getOwnPropertySymbols(server)
    .map((name) => Reflect.get(server, name))
    .filter((value) => value?.constructor?.name === 'Timeout')
  timer?.close()
  return server
}

replaceSockets()
globalThis.fetch = simulatedFetch as typeof fetch
