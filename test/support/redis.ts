import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { freePort } from './free-port.ts'

/** Returns the reason why tests with a real Redis cannot run here, or `undefined` if they can. */
export function redisMissing(): string | undefined {
  return spawnSync('redis-server', ['--version']).error === undefined
    ? undefined
    : 'redis-server is not installed'
}

/** A `redis-server` process on loopback that writes every command to disk before it responds. */
export interface RedisServer {
  readonly port: number
  /** Ends the process with SIGKILL. */
  kill(): Promise<void>
  /** Starts it again on the same port, with the data from disk. */
  start(): Promise<void>
  /** Stops the process without closing its connections, so that it accepts commands and does not answer. */
  pause(): void
  /** Ends a pause. */
  resume(): void
  /** Ends it and removes its files. */
  stop(): Promise<void>
}

/** @param options.isDurable `false` if nothing is written to disk, as for a benchmark */
export async function startRedis({ isDurable = true } = {}): Promise<RedisServer> {
  const dir = await mkdtemp(join(tmpdir(), 'mcp-gatekit-redis-'))
  const port = await freePort()
  let child: ChildProcess | undefined

  async function start(): Promise<void> {
    await removeTornCommand(dir)
    const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '']
    const durable = isDurable ? ['--appendonly', 'yes', '--appendfsync', 'always'] : []
    const started = spawn('redis-server', [...args, ...durable], { stdio: ['ignore', 'pipe', 'inherit'] })
    child = started
    for await (const line of createInterface({ input: started.stdout })) {
      if (!/Ready to accept connections/.test(line)) continue
      started.stdout.resume()
      return
    }
    throw new Error('redis-server has ended')
  }

  async function kill(): Promise<void> {
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
    const closed = once(child, 'exit')
    child.kill('SIGKILL')
    await closed
  }

  await start()
  return {
    port,
    start,
    kill,
    pause: () => void child?.kill('SIGSTOP'),
    resume: () => void child?.kill('SIGCONT'),
    async stop() {
      await kill()
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/**
 * Removes a transaction that a SIGKILL has torn from the end of the append-only file. Redis 7 removes only the torn
 * command: the commands before it in the transaction stay in the file, and the next start but one executes them.
 */
async function removeTornCommand(dir: string): Promise<void> {
  const manifest = join(dir, 'appendonlydir', 'appendonly.aof.manifest')
  if (!existsSync(manifest)) return
  const check = spawn('redis-check-aof', ['--fix', manifest], { stdio: ['pipe', 'ignore', 'inherit'] })
  check.stdin.on('error', () => undefined)
  // The program asks before it changes a file.
  check.stdin.end('y\ny\n')
  const [code] = await once(check, 'close')
  if (code !== 0) throw new Error(`redis-check-aof has ended with ${code}`)
}

/** A proxy between a client and a server. */
export interface CuttingProxy {
  readonly port: number
  /**
   * Passes the next request that contains `text` (upper case) to the server, but closes the connection instead of
   * returning the reply. Resolves when the connection is closed.
   */
  cutAnswerTo(text: string): Promise<void>
  /** Closes the connection instead of passing the next request that contains `text`. Resolves when it is closed. */
  cutRequest(text: string): Promise<void>
  close(): Promise<void>
}

export async function startCuttingProxy(target: number): Promise<CuttingProxy> {
  let cut: { readonly text: string; readonly isPassed: boolean; readonly done: () => void } | undefined
  const sockets = new Set<Socket>()
  const server = createServer((client) => {
    const upstream = connect(target, '127.0.0.1')
    let cutting = false
    for (const socket of [client, upstream]) {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => {
        sockets.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    client.on('data', (data) => {
      if (cut !== undefined && data.toString('latin1').toUpperCase().includes(cut.text)) cutting = true
      if (cutting && cut?.isPassed === false) close()
      else upstream.write(data)
    })
    upstream.on('data', (data) => {
      // Redis replies to a transaction as a whole.
      if (cutting) close()
      else client.write(data)
    })
    const close = () => {
      cut?.done()
      cut = undefined
      client.destroy()
    }
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    cutAnswerTo: (text) =>
      new Promise((done) => {
        cut = { text, isPassed: true, done }
      }),
    cutRequest: (text) =>
      new Promise((done) => {
        cut = { text, isPassed: false, done }
      }),
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
