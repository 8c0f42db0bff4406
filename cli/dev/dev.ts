import { basename } from 'node:path'
import type { Port } from '../loopback.ts'
import type { AuthorizationEventsOptions } from './authorization-events.ts'
import { startDevAuthorizationServer } from './authorization-server.ts'
import { type Connect, connectTo } from './connect-commands.ts'
import { type ConsoleServer, startConsoleServer } from './console-server.ts'
import { curlCommand } from './curl-command.ts'
import { type ConsoleEvent, OBSERVER } from './events/event.ts'
import { EventLog } from './events/event-log.ts'
import type { ServerState } from './events/panels.ts'
import { fingerprintOf } from './observer/observed-request.ts'
import { fromProject, LastLines, nodeArguments, type ProcessEnd, startServer } from './server-process.ts'
import { fetchResourceMetadata, type Listening, startupWarnings } from './startup-checks.ts'

export interface DevOptions {
  /** The absolute path of the server's file. */
  readonly file: string
  /** The file as given on the command line. */
  readonly name: string
  readonly serverArguments: readonly string[]
  /** The port of the console. */
  readonly port: Port
  /** The authorization server, or `undefined` to start none. */
  readonly authorization: { readonly port: Port; readonly tokenSeconds: number } | undefined
  /** Restarts the server when its files change. */
  readonly watch: boolean
  /** Receives warnings about the configuration of the server. */
  readonly warn?: ((text: string) => void) | undefined
  /** Receives the URL of the server and the commands for clients, once they are known and after each change. */
  readonly connects?: ((connect: Connect, curl: string | undefined) => void) | undefined
}

/** The time after which the earlier events of the server, which is another process, have arrived. */
const AFTER_SERVER_MS = 150

/** The file that observes the requests of the server. */
const OBSERVER_FILE = new URL('./observer/main.js', import.meta.url).href

/** A running console and authorization server. */
export type Dev = Awaited<ReturnType<typeof startDev>>

/** Starts the console and the authorization server. @throws {UsageError} */
export async function startDev(options: DevOptions) {
  const argv = [
    '--import',
    OBSERVER_FILE,
    ...nodeArguments(options.file, options.watch),
    ...options.serverArguments,
  ]
  let log: EventLog | undefined
  let console: ConsoleServer | undefined
  let state: ServerState = { state: 'starting' }
  let connect: Connect | undefined
  let output = new LastLines()
  let ended: ProcessEnd | undefined
  /** The processes of the server. With `--watch`, the child is another process, which starts them. */
  const pids = new Set<number>()
  const events: AuthorizationEventsOptions = {
    emit(event) {
      const feed = { sender: OBSERVER, events: [event] }
      setTimeout(() => log?.add(feed), AFTER_SERVER_MS).unref()
    },
    fingerprint: (token) => fingerprintOf(console?.feedUrl ?? '', token),
  }
  const oidcProvider = fromProject('oidc-provider', options.file)
  const authorization =
    options.authorization && oidcProvider !== undefined
      ? await startDevAuthorizationServer({ ...options.authorization, oidcProvider, events })
      : undefined
  const about = {
    command: [basename(options.file), ...options.serverArguments].join(' '),
    ...(authorization !== undefined && { issuer: authorization.issuer }),
  }
  log = new EventLog(about, checkListening)
  try {
    console = await startConsoleServer(log, options.port, options.watch ? startedProcess : undefined)
  } catch (error) {
    await authorization?.close()
    throw error
  }
  const { url, feedUrl } = console

  /** Compares the configuration of a server that has begun to listen. */
  async function checkListening({ attributes }: ConsoleEvent): Promise<void> {
    const listening = attributes as unknown as Listening
    const metadata = await fetchResourceMetadata(listening)
    if (metadata === undefined || log === undefined || state.state === 'ended') return
    const warnings = startupWarnings(metadata, listening, authorization?.issuer)
    for (const warning of warnings) if (!state.warnings?.includes(warning)) options.warn?.(warning)
    log.expected = metadata
    const earlier = connect?.url
    connect = connectTo(metadata.resource) ?? connect
    setServer({ ...state, warnings, ...(connect !== undefined && { connect }) })
    if (connect === undefined || connect.url === earlier) return
    const token = await authorization?.issueToken(connect.url, metadata.scopes)
    options.connects?.(connect, token && (await curlCommand(connect.url, token)))
  }

  /** Follows a process of the server that `--watch` has started. */
  function startedProcess(pid: number): (exitCode: number | undefined) => void {
    pids.add(pid)
    if (pids.size === 1) {
      output = new LastLines()
      setServer({ state: 'running', pid, ...(connect !== undefined && { connect }) })
    }
    return (code) => {
      pids.delete(pid)
      if (pids.size === 0) setEnded({ code, signal: code === undefined ? 'a signal' : undefined }, true)
    }
  }

  function setEnded(end: ProcessEnd, waits: boolean): void {
    ended = end
    const text = end.code === 0 ? '' : String(output)
    if (output.portInUse !== undefined && text !== state.output) options.warn?.(text)
    setServer({
      state: 'ended',
      how: end.signal ?? `exit code ${end.code}`,
      ...(text !== '' && { output: text }),
      ...(waits && { waits }),
    })
  }

  function setServer(next: ServerState): void {
    state = next
    log?.setServer(state)
  }

  return {
    /** The URL of the console. */
    url,
    /** The URL of the authorization server, or `undefined` if none is running. */
    issuer: authorization?.issuer,
    /** `true` if no authorization server is running because the project does not have `oidc-provider`. */
    lacksOidcProvider: options.authorization !== undefined && oidcProvider === undefined,
    /** Starts the server. Must be called at most once. */
    run(env: NodeJS.ProcessEnv) {
      const issuer = authorization && { MCP_GATEKIT_ISSUER: authorization.issuer }
      const server = startServer(argv, { ...env, MCP_GATEKIT_DEV_URL: feedUrl, ...issuer }, (chunk) => {
        output.add(chunk)
        // Output can arrive after the end of its process.
        if (state.state === 'ended' && ended !== undefined) setEnded(ended, state.waits === true)
      })
      if (!options.watch && server.pid !== undefined) setServer({ state: 'running', pid: server.pid })
      void server.ended.then((end) => setEnded(end, false))
      return server
    },
    /** Stops the console and the authorization server. */
    async close(): Promise<void> {
      await Promise.all([console?.close(), authorization?.close()])
    },
  }
}
