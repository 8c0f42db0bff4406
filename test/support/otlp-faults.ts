import { once } from 'node:events'
import { createServer, type Server, type Socket } from 'node:net'
import { expect } from 'chai'
import type { OtlpClientOptions, OtlpClientReport } from './otlp-client.ts'
import { type OtlpReceiver, type OtlpReceiverOptions, startOtlpReceiver } from './otlp-receiver.ts'

/** The expected outcome of the events. */
export type OtlpFate = 'arrived' | 'failed' | 'pending' | 'in part'

/** A collector with one fault. */
export interface OtlpFault {
  readonly name: string
  readonly fate: OtlpFate
  /** Set if records can arrive twice, because the collector stored them but did not respond. */
  readonly again?: true
  readonly receiver?: OtlpReceiverOptions
  /** A server in front of the receiver that does not speak HTTP on its first `connections`. */
  readonly front?: { readonly connections: number; readonly greet: (socket: Socket) => void }
  readonly timeout?: number
  readonly retryBudgetMs?: number
  readonly flushMs?: number
  readonly shutdownMs?: number
  /** The number of events, if it differs from the usual one. */
  readonly events?: number
}

type Answer = NonNullable<OtlpReceiverOptions['answer']>

/** The number of records that a partial success rejects per request. */
export const REJECTED = 7

const firstly = (first: Awaited<ReturnType<Answer>>): OtlpReceiverOptions => ({
  answer: (count) => (count === 1 ? first : undefined),
})

const always = (answer: Awaited<ReturnType<Answer>>): OtlpReceiverOptions => ({ answer: () => answer })

const final = (status: number, rest: Partial<OtlpFault> = {}): OtlpFault => ({
  name: `answers ${status}`,
  fate: 'failed',
  receiver: always({ status, body: 'no', headers: status < 400 ? { location: '/elsewhere' } : {} }),
  ...rest,
})

/** The timeout of an attempt in milliseconds, for faults that must exceed it. */
const timeout = 1_000

/** Returns every fault. */
export function otlpFaults(): OtlpFault[] {
  return [
    { name: 'none', fate: 'arrived' },
    {
      name: '503, Retry-After 1 s',
      fate: 'arrived',
      receiver: firstly({ status: 503, headers: { 'retry-after': '1' } }),
      timeout: 10_000,
    },
    {
      name: '503, Retry-After a date',
      fate: 'arrived',
      receiver: {
        answer: (count) =>
          count === 1
            ? {
                status: 503,
                headers: { 'retry-after': new Date(Date.now() + 1_000).toUTCString() },
              }
            : undefined,
      },
      timeout: 10_000,
    },
    {
      name: '429, Retry-After 1 s',
      fate: 'arrived',
      receiver: firstly({ status: 429, headers: { 'retry-after': '1' } }),
      timeout: 10_000,
    },
    { name: '429 once', fate: 'arrived', receiver: firstly({ status: 429 }) },
    { name: '500 once', fate: 'arrived', receiver: firstly({ status: 500 }) },
    {
      name: '500 for ever',
      fate: 'failed',
      receiver: always({ status: 500 }),
      retryBudgetMs: 600,
    },
    {
      name: 'resets the connection before the request',
      fate: 'arrived',
      front: { connections: 2, greet: (socket) => socket.resetAndDestroy() },
      timeout,
    },
    {
      name: 'resets the connection during the request',
      fate: 'arrived',
      receiver: {
        interrupt: (count, request) => {
          if (count > 2) return false
          request.once('data', () => request.socket.resetAndDestroy())
          return true
        },
      },
      timeout,
    },
    {
      name: 'resets the connection after the request',
      fate: 'arrived',
      again: true,
      receiver: {
        answer: (count) =>
          count === 1
            ? { status: 200, end: (response) => void response.socket?.resetAndDestroy() }
            : undefined,
      },
      timeout,
    },
    {
      name: 'breaks its answer off after a 200',
      fate: 'arrived',
      receiver: always({
        status: 200,
        end: (response) => {
          response.flushHeaders()
          setImmediate(() => response.socket?.resetAndDestroy())
        },
      }),
      timeout,
    },
    {
      name: 'trickles a 200',
      fate: 'arrived',
      receiver: always({
        status: 200,
        end: (response) => {
          const timer = setInterval(() => response.write(' '), 20)
          response.on('close', () => clearInterval(timer))
        },
      }),
      timeout,
    },
    {
      name: 'trickles a 503, once',
      fate: 'arrived',
      receiver: firstly({
        status: 503,
        end: (response) => {
          const timer = setInterval(() => response.write(' '), 20)
          response.on('close', () => clearInterval(timer))
        },
      }),
      timeout,
    },
    {
      name: 'trickles its head, once',
      fate: 'arrived',
      front: {
        connections: 1,
        greet: (socket) => {
          socket.resume()
          socket.write('HTTP/1.1 200 OK\r\nx: ')
          const timer = setInterval(() => socket.write('x'), 20)
          socket.on('close', () => clearInterval(timer))
        },
      },
      timeout,
    },
    final(301),
    final(307),
    final(308),
    final(400),
    final(401),
    final(404),
    final(413),
    {
      name: `accepts all but ${REJECTED} of each request`,
      fate: 'in part',
      receiver: always({ status: 200, rejected: REJECTED }),
    },
    {
      name: 'answers garbage instead of HTTP, once',
      fate: 'arrived',
      front: { connections: 1, greet: (socket) => socket.end('\u0000\u0001 what? \r\n\r\n') },
      timeout,
    },
    {
      name: 'a 200 with a garbage body',
      fate: 'arrived',
      receiver: always({ status: 200, body: '\u0008{]' }),
    },
    {
      name: 'a 200 with another content type',
      fate: 'arrived',
      receiver: always({ status: 200, body: '<p>ok</p>', headers: { 'content-type': 'text/html' } }),
    },
    {
      name: 'a 200 with an endless body',
      fate: 'arrived',
      receiver: always({
        status: 200,
        end: (response) => {
          const chunk = Buffer.alloc(65_536, 32)
          const pour = () => {
            while (!response.destroyed && response.write(chunk));
          }
          response.on('drain', pour)
          pour()
        },
      }),
      timeout: 10_000,
    },
    { name: 'never answers, once', fate: 'arrived', receiver: firstly('hang'), timeout },
    {
      name: 'never answers, until the budget is spent',
      fate: 'failed',
      receiver: always('hang'),
      timeout,
      retryBudgetMs: timeout * 1.2,
    },
    {
      name: 'never answers, beyond both deadlines',
      fate: 'pending',
      receiver: always('hang'),
      timeout: 30_000,
      flushMs: 300,
      shutdownMs: 300,
    },
    {
      name: 'asks to be left alone for longer than both deadlines',
      fate: 'pending',
      receiver: always({ status: 503, headers: { 'retry-after': '25' } }),
      timeout: 30_000,
      flushMs: 300,
      shutdownMs: 300,
    },
    {
      name: 'never reads the request, once',
      fate: 'arrived',
      front: { connections: 1, greet: (socket) => void socket.pause() },
      timeout,
    },
  ]
}

/** Starts a collector with this fault. */
export async function startFaulty({ receiver: options = {}, front }: OtlpFault): Promise<OtlpReceiver> {
  const receiver = await startOtlpReceiver(options)
  if (front === undefined) return receiver
  const sockets = new Set<Socket>()
  let connections = 0
  const server: Server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    if (++connections <= front.connections) return front.greet(socket)
    receiver.adopt(socket)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  return {
    ...receiver,
    port,
    url: `http://127.0.0.1:${port}`,
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
      await receiver.close()
    },
  }
}

/** Returns the options of a client of the faulty collector. */
export function clientOptions(
  fault: OtlpFault,
  usual: Pick<OtlpClientOptions, 'url' | 'encoding' | 'events' | 'flushMs' | 'shutdownMs'>,
): OtlpClientOptions {
  const { timeout, retryBudgetMs, events, flushMs, shutdownMs } = fault
  const own = { timeout, retryBudgetMs, events, flushMs, shutdownMs }
  return { ...usual, ...Object.fromEntries(Object.entries(own).filter(([, value]) => value !== undefined)) }
}

export interface OtlpArrivals {
  readonly arrived: number
  readonly twice: number
}

/** Returns how many different events arrived, and how many of them arrived more than once. */
export function countArrivals({ records }: Pick<OtlpReceiver, 'records'>): OtlpArrivals {
  const times = new Map<unknown, number>()
  for (const { attributes } of records) times.set(attributes.index, (times.get(attributes.index) ?? 0) + 1)
  return { arrived: times.size, twice: [...times.values()].filter((count) => count > 1).length }
}

/** Expects the outcome that the fault allows. A busy machine can exceed a deadline a little. */
export function checkLoss(
  { fate, again }: OtlpFault,
  { events, flushMs, shutdownMs }: OtlpClientOptions,
  report: OtlpClientReport,
  { records, requests }: Pick<OtlpReceiver, 'records' | 'requests'>,
): void {
  const { arrived, twice } = countArrivals({ records })
  expect(report.broken).to.deep.equal([])
  expect(report.samples).to.be.above(5)
  expect(report.flushMs).to.be.below(flushMs + 2_000)
  expect(report.shutdownMs).to.be.below(shutdownMs + 2_000)
  const rejected = fate === 'in part' ? REJECTED * requests.length : 0
  const sent = fate === 'arrived' || fate === 'in part'
  const { type, accepted, delivered, failed, dropped, pending } = report.stats
  expect({ type, accepted, delivered, failed, dropped, pending }).to.deep.equal({
    type: 'otlp',
    accepted: events,
    delivered: sent ? events - rejected : 0,
    failed: fate === 'failed' ? events : rejected,
    dropped: 0,
    pending: fate === 'pending' ? events : 0,
  })
  expect(arrived).to.equal(delivered)
  if (again) expect(twice).to.be.above(0)
  else expect(twice).to.equal(0)
  expect(requests.map(({ url }) => url)).to.not.include('/elsewhere')
  if (fate === 'failed') expect(report.lastError).to.match(/lost$/)
}
