import type * as AsyncHooks from 'node:async_hooks'
import { tryOrUndefined } from './try-or-undefined.ts'

/** The globals that are missing in some of the runtimes, such as browsers. */
interface RuntimeGlobals {
  readonly process?: Partial<NodeJS.Process>
  readonly Buffer?: BufferConstructor
  readonly navigator?: { readonly userAgent?: unknown }
  readonly AsyncLocalStorage?: typeof AsyncHooks.AsyncLocalStorage
}

type BuiltinName =
  | 'node:async_hooks'
  | 'node:crypto'
  | 'node:diagnostics_channel'
  | 'node:fs'
  | 'node:http'
  | 'node:https'
  | 'node:net'
  | 'node:os'
  | 'node:path'
  | 'node:util'

type Builtin<Name extends BuiltinName> = ReturnType<typeof process.getBuiltinModule<Name>>

const globals: RuntimeGlobals = globalThis

/**
 * Returns a module of Node.js, which is loaded at the first call, or `undefined` in a runtime without it. An import of the
 * module would fail there, and bundlers would reject it.
 */
export function builtinModule<Name extends BuiltinName>(name: Name): Builtin<Name> | undefined {
  return globals.process?.getBuiltinModule?.(name) as Builtin<Name> | undefined
}

/** Returns a module of Node.js, for code that runs only in runtimes that have it. @throws {Error} in any other runtime. */
export function requiredModule<Name extends BuiltinName>(name: Name): Builtin<Name> {
  const loaded = builtinModule(name)
  if (loaded === undefined) throw new Error(`This runtime does not have ${name}`)
  return loaded
}

/** Returns `true` on Cloudflare Workers, where a timer belongs to the request that sets it. */
export function isWorkerd(): boolean {
  return globals.navigator?.userAgent === 'Cloudflare-Workers'
}

/** Returns `true` in Node.js, and `false` in runtimes that only have its modules, such as Bun, Deno, and Cloudflare Workers. */
export function isNode(): boolean {
  const { versions } = globals.process ?? {}
  return (
    versions?.node !== undefined && versions.bun === undefined && versions.deno === undefined && !isWorkerd()
  )
}

/** Returns an environment variable, or `undefined` if the runtime does not have any, or does not allow to read it. */
export function environmentVariable(name: string): string | undefined {
  return tryOrUndefined(() => globals.process?.env?.[name])
}

/** The id of this process, or `undefined` in a runtime without processes. */
export function processId(): number | undefined {
  return globals.process?.pid
}

/** Copies a string that does not contain lone surrogates. */
export function copyWellFormed(text: string): string {
  return globals.Buffer === undefined ? copyOf(text) : globals.Buffer.from(text).toString()
}

/** Copies a string. Uses UTF-16, because UTF-8 would replace lone surrogates. */
export function copyText(text: string): string {
  return globals.Buffer === undefined
    ? copyOf(text)
    : globals.Buffer.from(text, 'utf16le').toString('utf16le')
}

function copyOf(text: string): string {
  return JSON.parse(JSON.stringify(text))
}

/** Returns the number of bytes of a string in UTF-8. */
export function utf8Length(text: string): number {
  return globals.Buffer === undefined
    ? new TextEncoder().encode(text).length
    : globals.Buffer.byteLength(text)
}

const asyncHooks = builtinModule('node:async_hooks')

/** The storage for values of an async context, or `undefined` in a runtime without one. */
export const AsyncLocalStorage: typeof AsyncHooks.AsyncLocalStorage | undefined =
  asyncHooks?.AsyncLocalStorage ?? globals.AsyncLocalStorage

/** The async context in which it is created. In a runtime without one, it only calls functions. */
export interface AsyncContext {
  /** Calls `run` in that context. */
  runInAsyncScope<Result>(run: () => Result): Result
}

class Snapshot implements AsyncContext {
  readonly #run: <Result>(run: () => Result) => Result = AsyncLocalStorage?.snapshot?.() ?? ((run) => run())

  runInAsyncScope<Result>(run: () => Result): Result {
    return this.#run(run)
  }
}

/** Captures the current async context. */
export const AsyncContext: new (type: string) => AsyncContext = asyncHooks?.AsyncResource ?? Snapshot
