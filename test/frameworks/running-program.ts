import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import { createTestIssuer, type TestIssuer } from '../../src/testing/test-issuer.ts'
import { freePort } from '../support/free-port.ts'

/** A test issuer, and the server of its metadata and keys. */
interface ServedIssuer {
  readonly issuer: TestIssuer
  readonly server: Server
}

async function serveTestIssuer(audience: string): Promise<ServedIssuer> {
  const server = createServer((req, res) => {
    const documents: Record<string, unknown> = {
      '/.well-known/oauth-authorization-server': { issuer: issuer.issuer, jwks_uri: `${issuer.issuer}/jwks` },
      '/jwks': issuer.jwks,
    }
    const document = documents[req.url ?? '']
    res.writeHead(document === undefined ? 404 : 200, { 'content-type': 'application/json' })
    res.end(JSON.stringify(document ?? {}))
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const issuer = createTestIssuer({ issuer: `http://127.0.0.1:${port}`, audience })
  return { issuer, server }
}

/** A server with its issuer. */
export interface RunningProgram {
  readonly origin: string
  readonly resource: string
  readonly issuer: TestIssuer
  /** Returns what the process has written so far. */
  output(): string
  stop(): Promise<void>
}

/** The milliseconds within which a program must accept connections. */
const START_MS = 60_000

/**
 * Starts a program that reads `ISSUER`, `RESOURCE`, and `PORT`. Returns when it accepts connections.
 * @param args the arguments, in which `%PORT%` stands for the port.
 */
export async function startProgram(
  command: string,
  args: readonly string[],
  cwd?: string,
): Promise<RunningProgram> {
  const port = await freePort()
  const origin = `http://127.0.0.1:${port}`
  const resource = `${origin}/mcp`
  const { issuer, server } = await serveTestIssuer(resource)
  const env = { ...process.env, ISSUER: issuer.issuer, RESOURCE: resource, PORT: String(port) }
  const child = spawn(
    command,
    args.map((arg) => arg.replace('%PORT%', String(port))),
    { env, cwd, stdio: ['ignore', 'pipe', 'pipe'] },
  )
  const closed = once(child, 'close').catch(() => undefined)
  let output = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      output += chunk
    })
  const stop = async () => {
    server.close()
    server.closeAllConnections()
    child.kill('SIGKILL')
    await closed
  }
  const deadline = Date.now() + START_MS
  while (!(await accepts(origin))) {
    if (child.exitCode !== null || child.pid === undefined || Date.now() > deadline) {
      await stop()
      throw new Error(`The program does not accept connections: ${output}`)
    }
    await delay(50)
  }
  return { origin, resource, issuer, output: () => output, stop }
}

const accepts = (origin: string): Promise<boolean> =>
  fetch(origin, { signal: AbortSignal.timeout(5_000) }).then(
    () => true,
    () => false,
  )
