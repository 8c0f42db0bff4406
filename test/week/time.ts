/**
 * Virtual time for one process. Import this file before anything else: it replaces the clocks, timers, random numbers, and the
 * waiting for the thread pool of Node, so that a run depends on its seed only.
 */
import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks'
import crypto from 'node:crypto'
import fs from 'node:fs'
import { createRequire, syncBuiltinESMExports } from 'node:module'
import { promisify } from 'node:util'
import { Random } from './random.ts'

const require = createRequire(import.meta.url)
const RealDate = Date
const realImmediate = setImmediate
const realNow = performance.now.bind(performance)

/** The time at which every run begins. */
export const START_MS: number = RealDate.UTC(2026, 11, 7)

/** A computer of the world. Its clock may differ from the true time, and its disk may be full. */
export class Machine {
  readonly name: string
  skewMs = 0
  isDiskFull = false
  /** The running process, or the last one. */
  program: Program

  constructor(name: string) {
    this.name = name
    this.program = new Program(this)
  }

  /** Ends the running process as SIGKILL does, and begins another one. */
  restart(): Program {
    this.program.kill()
    this.program = new Program(this)
    return this.program
  }
}

/** A process. After it was killed, none of its code runs any more. */
export class Program {
  readonly machine: Machine
  isAlive = true
  /** The connections of this process. */
  readonly connections = new Set<{ abandon(): void }>()

  constructor(machine: Machine) {
    this.machine = machine
  }

  /** Runs code of this process, in the turn of another one. */
  run<T>(action: () => T): T {
    const before = running
    running = this
    try {
      return programs.run(this, action)
    } finally {
      running = before
    }
  }

  /** Runs code of this process, which has the turn. */
  wake<T>(action: () => T): T {
    running = this
    return programs.run(this, action)
  }

  kill(): void {
    this.isAlive = false
    for (const connection of this.connections) connection.abandon()
  }
}

const programs = new AsyncLocalStorage<Program>()

/** The process that was woken up last. Code that leaves its asynchronous context, such as an exporter, belongs to it. */
let running: Program | undefined

/** Returns the process whose code runs. */
export function currentProgram(): Program | undefined {
  return programs.getStore() ?? running
}

/** A timer that behaves like one of Node. */
class Timer {
  atMs = 0
  order = 0
  isPending = false
  #isReferenced = true
  readonly #resource = new AsyncResource('Timer')
  readonly #callback: () => void
  readonly #ms: number
  readonly #repeats: boolean
  readonly program: Program | undefined = currentProgram()

  constructor(callback: () => void, ms: unknown, repeats: boolean) {
    this.#callback = callback
    const given = Number(ms)
    this.#ms = given >= 1 && given <= 2 ** 31 - 1 ? Math.trunc(given) : 1
    this.#repeats = repeats
    this.refresh()
  }

  fire(): void {
    this.#stop()
    if (this.#repeats) this.refresh()
    if (this.program?.isAlive === false) return
    running = this.program
    this.#resource.runInAsyncScope(this.#callback)
  }

  refresh(): this {
    this.#stop()
    this.isPending = true
    time.add(this, this.#ms)
    return this
  }

  close(): this {
    this.#stop()
    return this
  }

  #stop(): void {
    this.isPending = false
  }

  ref(): this {
    this.#isReferenced = true
    return this
  }
  unref(): this {
    this.#isReferenced = false
    return this
  }
  hasRef(): boolean {
    return this.#isReferenced
  }
  [Symbol.toPrimitive](): number {
    return this.order
  }
  [Symbol.dispose](): void {
    this.#stop()
  }
}

/** A resource of a module, such as that of the exporter, belongs to no process. What runs in it belongs to the process that calls it. */
function keepProgram(): void {
  const { runInAsyncScope } = AsyncResource.prototype
  AsyncResource.prototype.runInAsyncScope = function (action, self, ...given) {
    const program = currentProgram()
    const run = (...args: any[]) => {
      const call = () => action.apply(self as never, args)
      return programs.getStore() === undefined && program !== undefined ? programs.run(program, call) : call()
    }
    return runInAsyncScope.call(this, run, undefined, ...given) as ReturnType<typeof action>
  }
}

/** Something that the thread pool does for a process. Its result waits until all other code is idle. */
interface Job {
  readonly done: Promise<() => void>
}

interface Entry {
  readonly atMs: number
  readonly order: number
  readonly timer: Timer
}

/** The clock of the world. It moves only when all code waits. */
class Time {
  nowMs = 0
  /** Errors that no code has handled. */
  readonly failures: unknown[] = []
  #order = 0
  #immediates = 0
  readonly #heap: Entry[] = []
  readonly #jobs: Job[] = []

  /** The number of timers that wait. */
  get pending(): number {
    return this.#waiting().length
  }

  /** The number of timers that keep a process alive. */
  keeping(program: Program): number {
    return this.#waiting().filter(({ timer }) => timer.program === program && timer.hasRef()).length
  }

  #waiting(): Entry[] {
    return this.#heap.filter(({ timer, order }) => timer.isPending && timer.order === order)
  }

  add(timer: Timer, ms: number): void {
    timer.atMs = this.nowMs + ms
    timer.order = ++this.#order
    const heap = this.#heap
    const entry: Entry = { atMs: timer.atMs, order: timer.order, timer }
    let index = heap.push(entry) - 1
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (isBefore(heap[parent] as Entry, entry)) break
      heap[index] = heap[parent] as Entry
      index = parent
    }
    heap[index] = entry
  }

  #next(): Entry | undefined {
    const heap = this.#heap
    const [first] = heap
    const last = heap.pop()
    if (first === undefined || last === undefined || heap.length === 0) return first
    let index = 0
    for (;;) {
      let child = 2 * index + 1
      if (child >= heap.length) break
      if (child + 1 < heap.length && isBefore(heap[child + 1] as Entry, heap[child] as Entry)) child++
      if (isBefore(last, heap[child] as Entry)) break
      heap[index] = heap[child] as Entry
      index = child
    }
    heap[index] = last
    return first
  }

  /** Runs everything that is due until a time, in its order. */
  async run(untilMs: number): Promise<void> {
    await this.settle()
    for (;;) {
      const [first] = this.#heap
      if (first === undefined || first.atMs > untilMs) break
      this.#next()
      if (!first.timer.isPending || first.timer.order !== first.order) continue
      this.nowMs = first.atMs
      try {
        first.timer.fire()
      } catch (error) {
        this.failures.push(error)
      }
      await this.settle()
    }
    this.nowMs = Math.max(this.nowMs, untilMs)
  }

  /** Forgets the timers that were stopped, and those of processes that have ended. */
  forget(): void {
    const waiting = this.#waiting().filter(({ timer }) => timer.program?.isAlive !== false)
    // A sorted list is a heap, too.
    this.#heap.splice(
      0,
      Number.POSITIVE_INFINITY,
      ...waiting.sort((one, other) => (isBefore(one, other) ? -1 : 1)),
    )
  }

  /** Resolves when all code waits for time to pass. */
  async settle(): Promise<void> {
    for (;;) {
      await new Promise((resolve) => realImmediate(resolve))
      if (this.#immediates > 0) continue
      const job = this.#jobs.shift()
      if (job === undefined) return
      const finish = await job.done
      finish()
    }
  }

  /** Counts a callback that runs in this turn of the event loop. */
  immediate(callback: () => void): { clear(): void } {
    const program = currentProgram()
    let isDone = false
    const end = (): boolean => {
      if (isDone) return false
      isDone = true
      this.#immediates--
      return true
    }
    this.#immediates++
    realImmediate(() => {
      if (!end() || program?.isAlive === false) return
      running = program
      callback()
    })
    return { clear: () => void end() }
  }

  /** Lets the results of the thread pool arrive in the order in which they were asked for. */
  job<T>(start: () => Promise<T>): Promise<T> {
    const program = currentProgram()
    return new Promise<T>((resolve, reject) => {
      const passOn = (action: () => void) => () => {
        if (program?.isAlive === false) return
        running = program
        action()
      }
      this.#jobs.push({
        done: start().then(
          (value) => passOn(() => resolve(value)),
          (error: unknown) => passOn(() => reject(error)),
        ),
      })
    })
  }

  /** The clock on the wall of the running process. */
  wallMs(): number {
    return Math.floor(START_MS + this.nowMs + (currentProgram()?.machine.skewMs ?? 0))
  }
}

function isBefore(one: Entry, other: Entry): boolean {
  return one.atMs < other.atMs || (one.atMs === other.atMs && one.order < other.order)
}

export const time: Time = new Time()

/** Resolves after some virtual time. */
export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}

/** The random numbers of the program under test: keys, codes, and ids. */
export const productRandom: Random = new Random(1)

type AnyFunction = (...args: any[]) => any

function replaceTimers(): void {
  const start =
    (repeats: boolean) =>
    (callback: AnyFunction, ms?: number, ...args: unknown[]): Timer =>
      new Timer(() => callback(...args), ms, repeats)
  const stop = (timer: unknown): void => {
    if (timer instanceof Timer) timer.close()
  }
  const immediate = (callback: AnyFunction, ...args: unknown[]): object => {
    const resource = new AsyncResource('Immediate')
    return time.immediate(() => resource.runInAsyncScope(() => callback(...args)))
  }
  const replaced = {
    setTimeout: start(false),
    setInterval: start(true),
    setImmediate: immediate,
    clearTimeout: stop,
    clearInterval: stop,
    clearImmediate: (one: { clear?: () => void } | undefined) => one?.clear?.(),
  }
  const waiting = async (
    ms?: number,
    value?: unknown,
    { signal }: { signal?: AbortSignal } = {},
  ): Promise<unknown> => {
    signal?.throwIfAborted()
    return await new Promise((resolve, reject) => {
      const onAbort = () => {
        timer.close()
        reject(signal?.reason)
      }
      const timer = new Timer(
        () => {
          signal?.removeEventListener('abort', onAbort)
          resolve(value)
        },
        ms,
        false,
      )
      signal?.addEventListener('abort', onAbort, { once: true })
    })
  }
  const nextTurn = (value?: unknown): Promise<unknown> =>
    new Promise((resolve) => void immediate(() => resolve(value)))
  Object.defineProperty(replaced.setTimeout, promisify.custom, { value: waiting })
  Object.defineProperty(replaced.setImmediate, promisify.custom, { value: nextTurn })
  Object.assign(globalThis, replaced)
  Object.assign(require('node:timers'), replaced)
  Object.assign(require('node:timers/promises'), { setTimeout: waiting, setImmediate: nextTurn })
  AbortSignal.timeout = (ms) => {
    const controller = new AbortController()
    const late = () => new DOMException('The operation was aborted due to timeout', 'TimeoutError')
    // As in Node, the signal keeps no process alive.
    setTimeout(() => controller.abort(late()), ms).unref()
    return controller.signal
  }
}

function replaceClocks(): void {
  globalThis.Date = class VirtualDate extends RealDate {
    constructor(...given: any[]) {
      if (given.length === 0) super(time.wallMs())
      else super(...(given as [number]))
    }
    static override now(): number {
      return time.wallMs()
    }
    static override [Symbol.hasInstance](value: unknown): boolean {
      return value instanceof RealDate
    }
  } as DateConstructor
  performance.now = () => 1_000 + time.nowMs
  const hrtime = () => {
    const ns = BigInt(Math.round((1_000 + time.nowMs) * 1_000)) * 1_000n
    return [Number(ns / 1_000_000_000n), Number(ns % 1_000_000_000n)] as [number, number]
  }
  process.hrtime = Object.assign(hrtime, {
    bigint: () => BigInt(Math.round((1_000 + time.nowMs) * 1_000)) * 1_000n,
  })
}

function replaceRandomNumbers(): void {
  const bytes = (size: number): Buffer => {
    const made = Buffer.alloc(size)
    productRandom.fill(made)
    return made
  }
  const uuid = (): string => {
    const made = bytes(16)
    made[6] = ((made[6] as number) & 15) | 64
    made[8] = ((made[8] as number) & 63) | 128
    return made.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
  }
  const fill = <T extends ArrayBufferView>(view: T): T => {
    productRandom.fill(new Uint8Array(view.buffer, view.byteOffset, view.byteLength))
    return view
  }
  const later = (value: unknown, callback: unknown): unknown => {
    if (typeof callback !== 'function') return value
    setImmediate(callback as AnyFunction, null, value)
    return undefined
  }
  Object.assign(crypto, {
    randomBytes: (size: number, callback?: unknown) => later(bytes(size), callback),
    randomFillSync: (view: ArrayBufferView) => fill(view),
    randomUUID: uuid,
    randomInt: (from: number, to?: unknown, callback?: unknown) => {
      const [low, high] = typeof to === 'number' ? [from, to] : [0, from]
      return later(low + Math.floor(productRandom.next() * (high - low)), callback)
    },
  })
  const { webcrypto } = crypto
  for (const [name, value] of Object.entries({ randomUUID: uuid, getRandomValues: fill }))
    Object.defineProperty(webcrypto, name, { value, configurable: true, writable: true })
  Math.random = () => productRandom.next()
}

/** Methods that do not return a promise. */
const NOT_ASYNCHRONOUS =
  /^(?:constructor|watch|create\w+|readableWebStream|readLines|opendir|getAsyncId|on|once|off|emit|\w+Listener)$/

/** Makes the results of the thread pool arrive in a fixed order. */
function replaceThreadPool(): void {
  const gate = (target: object, refuse: (name: string) => Error | undefined = () => undefined): void => {
    for (const name of Object.getOwnPropertyNames(target)) {
      const real = Object.getOwnPropertyDescriptor(target, name)?.value
      if (typeof real !== 'function' || NOT_ASYNCHRONOUS.test(name)) continue
      Object.defineProperty(target, name, {
        configurable: true,
        writable: true,
        value(this: unknown, ...args: unknown[]) {
          const error = refuse(name)
          if (error !== undefined) return Promise.reject(error)
          // Node itself loads modules.
          if (currentProgram() === undefined) return real.apply(this, args)
          return time.job(async () => await real.apply(this, args))
        },
      })
    }
  }
  gate(Object.getPrototypeOf(crypto.webcrypto.subtle))
  for (const name of ['sign', 'verify', 'pbkdf2', 'scrypt', 'hkdf'] as const) {
    const real = crypto[name] as AnyFunction
    const replaced = (...args: unknown[]): unknown => {
      const callback = args.at(-1)
      if (typeof callback !== 'function' || currentProgram() === undefined) return real(...args)
      const start = (): Promise<unknown> =>
        new Promise((resolve, reject) => {
          real(...args.slice(0, -1), (error: unknown, value: unknown) =>
            error ? reject(error) : resolve(value),
          )
        })
      time.job(start).then(
        (value) => callback(null, value),
        (error) => callback(error),
      )
      return undefined
    }
    Object.assign(crypto, { [name]: replaced })
  }
  gate(fs.promises)
  const { open } = fs.promises
  Object.assign(fs.promises, {
    async open(...args: Parameters<typeof open>) {
      const handle = await open(...args)
      // It is a property of each handle.
      const { close } = handle
      handle.close = () => (currentProgram() === undefined ? close() : time.job(close))
      return handle
    },
  })
  const full = (name: string): Error | undefined =>
    /^(?:write|append)/.test(name) && currentProgram()?.machine.isDiskFull === true
      ? Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC', errno: -28 })
      : undefined
  fileHandles = (prototype) => gate(prototype, full)
}

let fileHandles: (prototype: object) => void = () => undefined

/** Replaces the methods of file handles, whose class Node does not export. */
export async function replaceFileHandles(): Promise<void> {
  const handle = await fs.promises.open(process.execPath, 'r')
  await handle.close()
  fileHandles(Object.getPrototypeOf(handle))
}

/** Resolves after real work outside of the world, such as reading a file, could go on. */
export function realTurn(): Promise<void> {
  return new Promise((resolve) => realImmediate(resolve))
}

/** Milliseconds of real time, for reports. */
export const realMs: () => number = realNow

keepProgram()
replaceTimers()
replaceClocks()
replaceRandomNumbers()
replaceThreadPool()
syncBuiltinESMExports()
