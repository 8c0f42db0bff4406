import { basename } from 'node:path'
import { type DevAuthorizationServer, startDevAuthorizationServer } from './authorization-server.ts'
import { type ConsoleServer, startConsoleServer } from './console-server.ts'
import { EventLog } from './event-log.ts'
import { fromProject } from './from-project.ts'
import type { Port } from './loopback.ts'
import { nodeArguments, type ProcessEnd, ServerProcess } from './server-process.ts'

export interface DevOptions {
  /** The absolute path of the server. */
  readonly file: string
  /** The server as the command line names it. */
  readonly name: string
  readonly serverArguments: readonly string[]
  /** Of the console. */
  readonly port: Port
  /** Undefined for no authorization server. */
  readonly authorization: { readonly port: Port; readonly tokenSeconds: number } | undefined
  /** Whether the server is restarted when its files change. */
  readonly watch: boolean
}

/** What was started. */
export interface Dev {
  /** Where the console is. */
  readonly url: string
  /** The authorization server; undefined where there is none. */
  readonly issuer: string | undefined
  /** Whether there is none because the project has no `oidc-provider`. */
  readonly lacksOidcProvider: boolean
  /** Starts the server. To be called once. */
  run(env: NodeJS.ProcessEnv): ServerProcess
  /** Ends what was started beside the server. */
  close(): Promise<void>
}

/** Starts the console and the authorization server. @throws {UsageError} */
export async function startDev(options: DevOptions): Promise<Dev> {
  const argv = [...nodeArguments(options.file, options.watch), ...options.serverArguments]
  const { server: authorization, lacksOidcProvider } = await authorizationServerOf(options)
  const log = new EventLog({
    command: [basename(options.file), ...options.serverArguments].join(' '),
    ...(authorization !== undefined && { issuer: authorization.issuer }),
  })
  let console: ConsoleServer
  try {
    console = await startConsoleServer(log, options.port)
  } catch (error) {
    await authorization?.close()
    throw error
  }
  return {
    url: console.url,
    issuer: authorization?.issuer,
    lacksOidcProvider,
    run(env) {
      const server = new ServerProcess(argv, {
        ...env,
        MCP_GATEKIT_DEV_URL: console.feedUrl,
        ...(authorization !== undefined && { MCP_GATEKIT_ISSUER: authorization.issuer }),
      })
      log.serverIs({ state: 'running', ...(server.pid !== undefined && { pid: server.pid }) })
      void server.ended.then((end) => log.serverIs({ state: 'ended', how: howOf(end) }))
      return server
    },
    async close() {
      await Promise.all([console.close(), authorization?.close()])
    },
  }
}

/** @throws {UsageError} where its port is taken */
async function authorizationServerOf({ file, authorization }: DevOptions): Promise<{
  readonly server?: DevAuthorizationServer
  readonly lacksOidcProvider: boolean
}> {
  if (authorization === undefined) return { lacksOidcProvider: false }
  const oidcProvider = fromProject('oidc-provider', file)
  if (oidcProvider === undefined) return { lacksOidcProvider: true }
  const server = await startDevAuthorizationServer({ ...authorization, oidcProvider })
  return { server, lacksOidcProvider: false }
}

function howOf({ code, signal }: ProcessEnd): string {
  return signal === undefined ? `exit code ${code}` : signal
}
