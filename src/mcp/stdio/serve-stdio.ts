import { Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { endOnSignals } from '../../base/end-on-signals.ts'
import { optionChecksOf } from '../../base/options/option-checks.ts'
import { optional, type RulesFor } from '../../base/options/option-rules.ts'
import { DEFAULT_SERVER_INFO } from '../adapter.ts'

import { Instrumentation } from '../instrumentation/instrumentation.ts'
import { loadServing } from '../load-serving.ts'
import { eventsFor, type McpEvents, type McpNotifier } from '../mcp-adapter.ts'
import { tableWithLimits } from '../operations/limits/limited-tool.ts'
import { checkServerInfo, type ServerInfo } from '../options.ts'
import { KitMcpRouter, tableOf } from '../router/router.ts'
import type { RouterTable } from '../router/router-table.ts'
import { tableWithInputs, UNKNOWN_ARGUMENTS } from '../router/schemas/closed-inputs.ts'
import { checkTelemetry, type TelemetryOption } from '../telemetry-option.ts'
import type { StdioConnectionProps } from './stdio-connection.ts'

const checks = optionChecksOf('serveStdio')
const {
  checkBoolean,
  checkString,
  checkTexts,
  invalidKind,
  missingOption,
  oneOf,
  readOptions,
  unusableOption,
  wholeNumber,
} = checks

/** Options of {@link serveStdio}. */
export interface ServeStdioOptions {
  /**
   * The telemetry manager that receives the events. It is shut down at the end of the connection. A transport that writes to
   * `console.log` writes to stderr instead. By default, no events are
   * emitted, and failures are written to stderr: at most 10 lines a minute for each kind. `false` turns these lines off.
   */
  readonly telemetry?: TelemetryOption | undefined
  /**
   * Allows the client to use operations that declare `scopes`. Clients do not send tokens over stdio: the user who starts the
   * process may use all operations. Required if an operation declares `scopes`. Defaults to `false`.
   */
  readonly trustLocal?: boolean | undefined
  /** Name and version of the server. Defaults to `{ name: 'mcp-gatekit', version: '0.0.0' }`. */
  readonly serverInfo?: ServerInfo | undefined
  /** Instructions for the model on how to use this server. */
  readonly instructions?: string | undefined
  /**
   * The maximum size of a message of the client, in bytes. A larger message is dropped, and the client gets an error. Defaults
   * to 4 194 304 (4 MiB).
   */
  readonly maxMessageBytes?: number | undefined
  /** The same as the option of {@link createMcpAdapter}. Defaults to `'ignore'`. */
  readonly unknownArguments?: 'ignore' | 'reject' | undefined
  /** Records the arguments and results of tools, with the redaction of the telemetry manager. Defaults to `false`. */
  readonly recordPayloads?: boolean | undefined
  /** The same as the option of {@link createMcpAdapter}. None by default. */
  readonly knownClients?: readonly string[] | undefined
}

/** A server over stdio, as {@link serveStdio} returns it. */
export interface StdioServer<Events = any> {
  /** Notifies the client of changes. */
  readonly notify: McpNotifier
  /** The events of the router, which the client polls, or receives on streams. */
  readonly events: McpEvents<Events>
  /** Resolves when the connection has ended and telemetry is shut down. Never rejects. Close your own resources then. */
  readonly closed: Promise<void>
  /**
   * Ends the connection: aborts the requests in progress and shuts telemetry down. Further calls return the promise of the
   * first one.
   */
  close(): Promise<void>
}

const MAX_MESSAGE_BYTES = 4 * 1024 * 1024

/** `maxMessageBytes` at most. Strings of V8 have at most about 512 Mi characters. */
const MAX_LIMIT = 128 * 1024 * 1024

/** The time for telemetry to flush, and then for the client to read the last messages. Clients usually kill the process two seconds after they have closed its input. */
const FLUSH_MS = 1_000

/** The time after a signal in which the process may end by itself. */
const LINGER_MS = 100

let isServing = false

/**
 * Serves a router over stdin and stdout, for a client that starts the process. There is no OAuth: tools, prompts, resources,
 * and telemetry work as over HTTP, and `context.auth` is absent.
 *
 * Stdout is reserved for the protocol: other output to `process.stdout`, such as that of `console.log`, goes to stderr.
 * The server ends when the client closes stdin, and at SIGTERM or SIGINT, which then end the process.
 * @param router the typed router.
 * @param options telemetry, server info, and the trust in the local user.
 * @returns the server, with `close()`, `closed`, and `notify`.
 * @throws {KitMcpConfigError} if an option is invalid or unknown, if an operation declares `scopes` and `trustLocal` is not
 * `true`, or if the process serves stdio already.
 * @example
 * ```ts
 * import { KitMcpRouter, serveStdio } from 'mcp-gatekit'
 *
 * const router = KitMcpRouter.create().tool('ping', { description: 'Replies with pong' }, () => 'pong')
 *
 * serveStdio(router, { serverInfo: { name: 'pings', version: '1.0.0' } })
 * ```
 * @see docs/guides/stdio.md
 */
export function serveStdio<Events>(
  router: KitMcpRouter<any, any, Events>,
  options: ServeStdioOptions = {},
): StdioServer<Events> {
  const { telemetry, ...props } = resolve(router, options)
  if (isServing)
    throw unusableOption(
      'serveStdio',
      'can be called only once at a time',
      'Serve one router for each process.',
    )
  const { StdioConnection } = loadServing('serveStdio', checks)
  isServing = true
  const { output, release } = claimStdout()
  const connection = new StdioConnection({ ...props, input: process.stdin, output })
  const closed = connection.ended.then(async () => {
    const flushed = async (): Promise<unknown> => (telemetry || undefined)?.shutdown({ timeoutMs: FLUSH_MS })
    // The process ends now; the telemetry reports its errors to its logger.
    await flushed().catch(() => undefined)
    // The last messages are written before the process ends.
    await ended(output)
    release()
    isServing = false
  })
  const end = (): Promise<void> => {
    connection.close()
    return closed
  }
  const ignoreSignals = endOnSignals(['SIGTERM', 'SIGINT'], end, LINGER_MS)
  let closing: Promise<void> | undefined
  return Object.freeze<StdioServer>({
    notify: connection.notify,
    events: eventsFor(connection.events),
    closed,
    close() {
      closing ??= end().then(ignoreSignals)
      return closing
    },
  })
}

const RULES = {
  telemetry: optional((_option, value) => checkTelemetry(value as TelemetryOption, checks)),
  trustLocal: optional(checkBoolean, false),
  serverInfo: optional((_option, value) => checkServerInfo(value, checks), DEFAULT_SERVER_INFO),
  instructions: optional(checkString),
  maxMessageBytes: optional(wholeNumber(1, MAX_LIMIT), MAX_MESSAGE_BYTES),
  unknownArguments: optional(oneOf(UNKNOWN_ARGUMENTS), 'ignore'),
  recordPayloads: optional(checkBoolean, false),
  knownClients: optional(checkTexts, []),
} satisfies RulesFor<ServeStdioOptions>

function resolve(
  router: unknown,
  options: unknown,
): Omit<StdioConnectionProps, 'input' | 'output'> & { readonly telemetry: TelemetryOption | undefined } {
  if (!(router instanceof KitMcpRouter))
    throw invalidKind('router', 'must be a KitMcpRouter', router, 'pass the router as the first argument')
  const expected = 'must be called with options such as { telemetry }'
  const { trustLocal, recordPayloads, knownClients, unknownArguments, ...given } = readOptions(
    'serveStdio',
    expected,
    options,
    RULES,
  )
  // The local user is one caller without an address.
  const table = tableWithLimits(
    localTable(tableWithInputs(tableOf(router), unknownArguments, checks), trustLocal),
    undefined,
  )
  const instrumentation = new Instrumentation(given.telemetry, { recordPayloads, knownClients })
  return { ...given, table, instrumentation }
}

/** @throws {KitMcpConfigError} if operations declare scopes, which no token can prove. */
function localTable(table: RouterTable, trustsLocal: boolean): RouterTable {
  const [tool] = [...table.tools.values()].filter(({ task }) => task?.mode === 'required')
  if (tool !== undefined)
    throw unusableOption(
      `task of tool '${tool.definition.name}'`,
      `must not be 'required' over stdio, which does not have tasks`,
      `Set task to 'optional', so that the tool runs during the call.`,
    )
  if (trustsLocal) return withoutScopes(table)
  const scoped = scopedOperations(table)
  if (scoped === '') return table
  throw missingOption(
    'trustLocal',
    `set it to true to let the local user call the operations that declare scopes (${scoped}), or serve a router without them`,
  )
}

/** Returns the operations with scopes, or with their own policy, such as `tool 'wipe'`. Returns '' if there are none. */
function scopedOperations(table: RouterTable): string {
  const { tools, prompts, listedResources, templates, events } = table
  const named = [tools, prompts, listedResources, templates, events]
    .flatMap((entries) => [...entries.values()])
    .filter((entry) => entry.scopes.length > 0 || 'authorize' in entry)
    .map(({ kind, definition }) => `${kind} '${definition.name}'`)
  return named.join(', ')
}

/** Returns a table whose operations do not need scopes. */
function withoutScopes(table: RouterTable): RouterTable {
  const open = (entry: object): object => ({ ...entry, scopes: [] })
  const members = Object.entries(table).map(([member, value]) => [
    member,
    value instanceof Map ? new Map([...value].map(([key, entry]) => [key, open(entry)])) : value,
  ])
  return { ...Object.fromEntries(members), templates: table.templates.map(open), scopes: [] }
}

/**
 * Reserves `process.stdout` for the protocol. Everything else that the program writes to it, such as with `console.log`, goes to
 * `process.stderr`. Returns the real output, and a function that ends the reservation.
 */
function claimStdout(): { readonly output: Writable; readonly release: () => void } {
  const { stdout, stderr } = process
  const { write } = stdout
  const redirected: typeof write = stderr.write.bind(stderr)
  stdout.write = redirected
  // The client may close its end of the pipe. `output` reports that.
  stdout.on('error', () => undefined)
  const output = new Writable({
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => {
      write.call(stdout, chunk, 'utf8', done)
    },
  })
  return {
    output,
    release() {
      // Something else may have replaced the function since.
      if (stdout.write === redirected) stdout.write = write
    },
  }
}

/** Resolves when everything is written, or the client does not read it in time. */
async function ended(output: Writable): Promise<void> {
  output.end()
  await finished(output, { signal: AbortSignal.timeout(FLUSH_MS) }).catch(() => output.destroy())
}
