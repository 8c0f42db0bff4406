import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect } from 'chai'
import {
  InMemoryTransportAdapter,
  KitTelemetry,
  KitTelemetryError,
  type KitTelemetryErrorCode,
  type KitTelemetryManager,
  type TelemetryEnvelope,
} from '../../../src/telemetry/index.ts'

/** A logger that keeps its reports. */
export class RecordingLogger {
  readonly errors: { message: string; error: unknown }[] = []
  readonly warnings: { message: string; error: unknown }[] = []

  error(message: string, error?: unknown): void {
    this.errors.push({ message, error })
  }

  warn(message: string, error?: unknown): void {
    this.warnings.push({ message, error })
  }

  /** The codes of the errors reported so far. */
  get codes(): unknown[] {
    return this.errors.map(({ error }) => (KitTelemetryError.is(error) ? error.code : error))
  }
}

/** A builder that keeps every event, and its logger and transport. */
export function recording() {
  const logger = new RecordingLogger()
  const memory = InMemoryTransportAdapter.create()
  const builder = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .withLogger(logger)
    .addTransport(memory)
  return { builder, logger, memory, events: () => memory.getEvents() }
}

/** A manager that keeps every event, and its transport. */
export function keepingEvents() {
  const transport = InMemoryTransportAdapter.create()
  const telemetry = KitTelemetry.create()
    .withSampling({ debugRate: 1, infoRate: 1 })
    .addTransport(transport)
    .build()
  return { telemetry, transport }
}

/** Returns the envelope that a plain manager creates for one event. */
export function emitted(
  input: Parameters<KitTelemetryManager['emit']>[1],
  shape: (builder: KitTelemetry) => KitTelemetry = (builder) => builder,
): TelemetryEnvelope {
  const { builder, logger, events } = recording()
  shape(builder).build().emit('something.happened', input)
  expect(logger.codes).to.deep.equal([])
  const [envelope] = events()
  if (envelope === undefined) throw new Error('no event was delivered')
  return envelope
}

export function expectCode(code: KitTelemetryErrorCode, work: () => unknown): KitTelemetryError {
  let thrown: unknown
  try {
    work()
  } catch (error) {
    thrown = error
  }
  expect(KitTelemetryError.is(thrown), `${code} should have been thrown, not ${String(thrown)}`).to.equal(
    true,
  )
  expect((thrown as KitTelemetryError).code).to.equal(code)
  return thrown as KitTelemetryError
}

export async function expectRejection(code: KitTelemetryErrorCode, work: Promise<unknown>): Promise<void> {
  const thrown = await work.then(
    () => undefined,
    (error: unknown) => error,
  )
  expectCode(code, () => {
    throw thrown
  })
}

/** A promise and the means to settle it. */
export interface Deferred {
  readonly promise: Promise<void>
  readonly resolve: () => void
  readonly reject: (error: unknown) => void
}

export function deferred(): Deferred {
  let resolve = () => {}
  let reject: Deferred['reject'] = () => {}
  const promise = new Promise<void>((onResolve, onReject) => {
    resolve = onResolve
    reject = onReject
  })
  return { promise, resolve, reject }
}

/** An object whose `then` is `property`: what a promise of another library looks like, or pretends to. */
export function thenable(property: PropertyDescriptor): object {
  return Object.defineProperty({}, 'then', property)
}

/** Lets every promise that can settle now do so. */
export function settle(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve))
}

export function expectDeeplyFrozen(value: unknown): void {
  if (typeof value !== 'object' || value === null) return
  expect(Object.isFrozen(value)).to.equal(true)
  for (const member of Object.values(value)) expectDeeplyFrozen(member)
}

/** The bytes of the heap that are in use once the garbage is collected. */
export async function collectedHeap(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const gc = runInNewContext('gc') as () => void
  for (let time = 0; time < 3; time++) {
    gc()
    await new Promise(setImmediate)
  }
  return process.memoryUsage().heapUsed
}
