import { basename } from 'node:path'
import { type DevAuthorizationServer, startDevAuthorizationServer } from './authorization-server.ts'
import { type ConsoleServer, startConsoleServer } from './console-server.ts'
import { EventLog } from './event-log.ts'
import { fromProject } from './from-project.ts'
import type { Port } from './loopback.ts'
import { nodeArguments, type ProcessEnd, ServerProcess } from './server-process.ts'

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
}

/** A running console and authorization server. */
export interface Dev {
  /** The URL of the console. */
  readonly url: string
  /** The URL of the authorization server, or `undefined` if none is running. */
  readonly issuer: string | undefined
  /** `true` if no authorization server is running because the project does not have `oidc-provider`. */
  readonly lacksOidcProvider: boolean
  /** Starts the server. Must be called at most once. */
  run(env: NodeJS.ProcessEnv): ServerProcess
  /** Stops the console and the authorization server. */
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
      log.setServer({ state: 'running', ...(server.pid !== undefined && { pid: server.pid }) })
      void server.ended.then((end) => log.setServer({ state: 'ended', how: howOf(end) }))
      return server
    },
    async close() {
      await Promise.all([console.close(), authorization?.close()])
    },
  }
}

/** @throws {UsageError} if its port is in use */
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
