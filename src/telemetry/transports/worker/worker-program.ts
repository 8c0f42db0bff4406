import type { MessagePort } from 'node:worker_threads'
import type { TelemetryTransport, TelemetryTransportMeta } from '../../delivery/transport.ts'
import type { TelemetryEnvelope } from '../../envelope/envelope.ts'

/** The input of the program. */
export interface WorkerInput {
  readonly port: MessagePort
  readonly moduleUrl: string
  /** The argument of the function that makes the transport. */
  readonly data: unknown
  readonly meta: TelemetryTransportMeta
}

/** An event with its number, and when it was emitted if that is not now. */
export type NumberedEvent = readonly [
  number: number,
  envelope: TelemetryEnvelope,
  emittedAtMs: number | undefined,
]

/** The state of an event in the worker, which is known even if the worker stops. 0 is an event that was not begun. */
export const EventState = { begun: 1, delivered: 2, failed: 3 } as const

/** The states of events, which both threads can read. */
export type EventStates = Uint8Array<SharedArrayBuffer>

/** Events whose states begin at `start` of `states`. Without `states`, they are those of the previous batch. */
export interface EventBatch {
  readonly type: 'events'
  readonly events: readonly NumberedEvent[]
  readonly start: number
  readonly states?: EventStates
}

/** A message to the program. */
export type ToWorker =
  | EventBatch
  | { readonly type: 'flush'; readonly call: number }
  | { readonly type: 'abandon'; readonly call: number }
  | { readonly type: 'shutdown' }

/** An error as plain data. */
export interface ErrorData {
  readonly name: string
  readonly message: string
  readonly code?: string
  readonly stack?: string
  /** The details of a `KitTelemetryError`, as JSON. Only such an error has it. */
  readonly kitDetails?: string
}

/** A message of the program. */
export type FromWorker =
  | { readonly type: 'ready' }
  | { readonly type: 'failed'; readonly error: ErrorData }
  | {
      readonly type: 'settled'
      readonly delivered: readonly number[]
      readonly failed: readonly (readonly [number: number, error: ErrorData])[]
    }
  | { readonly type: 'flushed'; readonly call: number; readonly error?: ErrorData }
  | { readonly type: 'closed'; readonly error?: ErrorData }

/**
 * Makes the transport in the worker, and passes messages to it. The worker gets the source text of this function, so it must
 * not refer to anything outside of itself.
 * @param load imports a module.
 */
export async function runWorkerProgram(
  { port, moduleUrl, data, meta }: WorkerInput,
  load: (url: string) => Promise<Readonly<Record<string, unknown>>>,
): Promise<void> {
  const send = (message: FromWorker): void => port.postMessage(message)

  function read(value: unknown, key: string | symbol): unknown {
    try {
      return (value as Record<string | symbol, unknown> | null | undefined)?.[key]
    } catch {
      return undefined
    }
  }

  function describe(thrown: unknown): ErrorData {
    const textOf = (key: string): string | undefined => {
      const text = read(thrown, key)
      return typeof text === 'string' ? text.slice(0, 10_000) : undefined
    }
    const code = textOf('code')
    const stack = textOf('stack')
    let kitDetails: string | undefined
    if (read(thrown, Symbol.for('mcp-gatekit.KitTelemetryError')) === true) {
      try {
        kitDetails = JSON.stringify(read(thrown, 'details') ?? {}).slice(0, 10_000)
      } catch {
        kitDetails = '{}'
      }
    }
    return {
      name: textOf('name') ?? 'Error',
      message: textOf('message') ?? '',
      ...(code !== undefined && { code }),
      ...(stack !== undefined && { stack }),
      ...(kitDetails !== undefined && { kitDetails }),
    }
  }

  function freeze(value: unknown): void {
    if (typeof value !== 'object' || value === null || Object.isFrozen(value)) return
    Object.freeze(value)
    for (const member of Object.values(value)) freeze(member)
  }

  let delivered: number[] = []
  let failed: [number, ErrorData][] = []
  function sendSettled(): void {
    if (delivered.length + failed.length === 0) return
    send({ type: 'settled', delivered, failed })
    delivered = []
    failed = []
  }
  let isHandling = false
  function settle(number: number, error?: ErrorData): void {
    // The outcomes of one batch, or of one turn, are sent together.
    if (!isHandling && delivered.length + failed.length === 0) queueMicrotask(sendSettled)
    if (error === undefined) delivered.push(number)
    else failed.push([number, error])
  }

  /** @returns `true` if the outcome is not known yet. */
  function handle(
    transport: TelemetryTransport,
    [number, envelope, emittedAtMs]: NumberedEvent,
    states: EventStates,
    index: number,
  ): boolean {
    const deliver = (): void => {
      states[index] = 2
      settle(number)
    }
    const fail = (error: unknown): void => {
      states[index] = 3
      settle(number, describe(error))
    }
    states[index] = 1
    try {
      freeze(envelope)
      const handled: unknown =
        emittedAtMs === undefined ? transport.handle(envelope) : transport.handle(envelope, emittedAtMs)
      if (typeof (handled as PromiseLike<unknown> | undefined)?.then === 'function') {
        Promise.resolve(handled).then(deliver, fail)
        return true
      }
      deliver()
    } catch (error) {
      fail(error)
    }
    return false
  }

  let latestStates: EventStates
  async function handleAll(
    transport: TelemetryTransport,
    { events, start, states = latestStates }: EventBatch,
  ): Promise<void> {
    latestStates = states
    isHandling = true
    let index = start
    for (const event of events) {
      // The outcome of an async function that does not wait is known before the next event is begun.
      if (handle(transport, event, states, index++)) await undefined
    }
    isHandling = false
    sendSettled()
  }

  async function outcomeOf(call: () => unknown): Promise<{ error?: ErrorData }> {
    try {
      await call()
      return {}
    } catch (error) {
      return { error: describe(error) }
    } finally {
      sendSettled()
    }
  }

  async function makeTransport(): Promise<TelemetryTransport> {
    const module = await load(moduleUrl)
    const make = module.default ?? module.transport
    if (typeof make !== 'function')
      throw new TypeError(
        'the module has neither a default export nor an export transport that is a function',
      )
    const transport = await make(data)
    if (typeof transport?.handle !== 'function')
      throw new TypeError('the function that the module exports must return a transport')
    await transport.init?.(meta)
    return transport
  }

  let transport: TelemetryTransport
  try {
    transport = await makeTransport()
  } catch (error) {
    send({ type: 'failed', error: describe(error) })
    port.close()
    return
  }
  /** The deadlines of the calls of `flush`. */
  const flushes = new Map<number, AbortController>()
  async function flush(call: number): Promise<void> {
    const deadline = new AbortController()
    flushes.set(call, deadline)
    const outcome = await outcomeOf(() => transport.flush?.(deadline.signal))
    if (flushes.delete(call)) send({ type: 'flushed', call, ...outcome })
  }
  port.on('message', async (message: ToWorker) => {
    switch (message.type) {
      case 'events':
        await handleAll(transport, message)
        return
      case 'flush':
        await flush(message.call)
        return
      case 'abandon':
        flushes.get(message.call)?.abort()
        flushes.delete(message.call)
        return
      default:
        send({ type: 'closed', ...(await outcomeOf(() => transport.shutdown?.())) })
    }
  })
  send({ type: 'ready' })
}
