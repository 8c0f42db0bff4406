import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { freePorts } from './free-port.ts'
import { NGINX, nginxMissing } from './nginx.ts'
import { type RedisServer, redisMissing, startRedis } from './redis.ts'
import { createSigningKey, signToken, startKeyServer } from './tokens.ts'

/** Returns the reason why tests with a cluster cannot run here, or `undefined` if they can. */
export function clusterMissing(): string | undefined {
  return redisMissing() ?? nginxMissing()
}

/** The telemetry statistics that a node prints when it shuts down gracefully. */
export interface TransportCounts {
  readonly accepted: number
  readonly delivered: number
  readonly failed: number
  readonly dropped: number
  readonly pending: number
}

/** A process of examples/cluster/node.ts. */
export class ClusterNode {
  readonly port: number
  readonly #env: NodeJS.ProcessEnv
  #child: ChildProcess | undefined
  #said = ''

  constructor(port: number, env: Readonly<Record<string, string>>) {
    this.port = port
    this.#env = { ...process.env, ...env, PORT: String(port) }
  }

  get url(): URL {
    return new URL(`http://127.0.0.1:${this.port}/mcp`)
  }

  /** Returns the resident memory of the process, from `/proc`. */
  async residentKiB(): Promise<number> {
    const status = await readFile(`/proc/${this.#child?.pid}/status`, 'utf8').catch(() => '')
    return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1])
  }

  async start(): Promise<void> {
    const file = fileURLToPath(new URL('../../examples/cluster/node.js', import.meta.url))
    const child = spawn(process.execPath, [file], { env: this.#env, stdio: ['ignore', 'pipe', 'inherit'] })
    this.#child = child
    this.#said = ''
    const serving = new Promise<void>((resolve, reject) => {
      createInterface({ input: child.stdout }).on('line', (line) => {
        this.#said += `${line}\n`
        if (line.startsWith('Serving ')) resolve()
      })
      child.once('exit', (code) => reject(new Error(`the node ended with ${code}: ${this.#said}`)))
    })
    await serving
  }

  /** Ends the process with SIGKILL. */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
  }

  /** Shuts the node down gracefully. Returns its telemetry statistics, or `undefined` if the node was not running. */
  async stop(): Promise<TransportCounts | undefined> {
    if (!(await this.#end('SIGTERM'))) return undefined
    const closed = /^\{"closed":.*$/m.exec(this.#said)?.[0]
    if (closed === undefined) throw new Error(`the node did not shut down gracefully: ${this.#said}`)
    return JSON.parse(closed).closed.transports[0]
  }

  async #end(signal: 'SIGKILL' | 'SIGTERM'): Promise<boolean> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return false
    const closed = once(child, 'close')
    child.kill(signal)
    await closed
    return true
  }
}

/** One request that nginx passed on. */
export interface Passed {
  readonly ports: readonly number[]
  /** The session id that the client sent, or `undefined`. */
  readonly session: string | undefined
}

/** nginx with a file of examples/cluster, on free ports. */
export interface Nginx {
  readonly port: number
  /** The errors that nginx has logged so far. */
  readonly complaints: readonly string[]
  /** Returns, for each request so far, its session id and the ports of the nodes that received it. */
  passedOn(): Promise<readonly Passed[]>
  /** Resolves when the old workers have begun to shut down. */
  reload(): Promise<void>
  stop(): Promise<void>
}

/** Starts nginx in front of two nodes. @param path the path of MCP, which decides about the file */
export async function startNginx(
  port: number,
  [first, second]: readonly [number, number],
  path = '/mcp',
): Promise<Nginx> {
  const dir = await mkdtemp(join(tmpdir(), 'mcp-gatekit-nginx-'))
  const conf = join(dir, 'nginx.conf')
  const log = join(dir, 'access.log')
  const read = (name: string) =>
    readFile(new URL(`../../../examples/cluster/${name}`, import.meta.url), 'utf8')
  const whole = await read('nginx.conf')
  // The other file belongs into the block `http`.
  const taken =
    path === '/mcp' ? whole : `${whole.split('  # Calls without')[0]}${await read('sub-path.conf')}}`
  const ports: Readonly<Record<string, number>> = { 3000: port, 3001: first, 3002: second }
  // If nginx runs as root, its workers run as another user by default and could not read the folder.
  const workers = `worker_processes 2;${process.getuid?.() === 0 ? '\nuser root;' : ''}`
  const text = taken
    .replace(/:(300[0-2])\b/g, (_, given: string) => `:${ports[given]}`)
    .replace(/^worker_processes auto;$/m, workers)
    .replace('error_log stderr warn;', 'error_log stderr notice;')
    .replace(
      'access_log off;',
      `log_format passed '$http_mcp_session_id;$upstream_addr'; access_log ${log} passed;`,
    )
  await writeFile(conf, text)
  const complaints: string[] = []
  let waiting: { readonly pattern: RegExp; count: number; readonly done: () => void } | undefined
  const child = spawn(NGINX, ['-p', dir, '-c', conf, '-g', 'daemon off;'], {
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const ended = once(child, 'close')
  createInterface({ input: child.stderr }).on('line', (line) => {
    if (/\[(?:warn|error|crit|alert|emerg)\]/.test(line)) complaints.push(line)
    if (waiting?.pattern.test(line) && --waiting.count === 0) waiting.done()
  })
  const said = (pattern: RegExp, count: number): Promise<void> =>
    new Promise((done, reject) => {
      waiting = { pattern, count, done }
      void ended.then(() => reject(new Error(`nginx has ended: ${complaints.join('\n')}`)))
    })
  await said(/start worker process \d/, 2)
  return {
    port,
    complaints,
    async passedOn() {
      const lines = (await readFile(log, 'utf8')).trimEnd().split('\n')
      return lines.map((line) => {
        const [session = '', nodes = ''] = line.split(';')
        const ports = [...nodes.matchAll(/:(\d+)/g)].map(([, port]) => Number(port))
        return { ports, session: session === '-' ? undefined : session }
      })
    },
    async reload() {
      const reloaded = said(/gracefully shutting down/, 2)
      child.kill('SIGHUP')
      await reloaded
    },
    async stop() {
      child.kill('SIGTERM')
      await ended
      await rm(dir, { recursive: true, force: true })
    },
  }
}

/** Two nodes behind nginx that share one Redis. */
export interface Cluster {
  readonly redis: RedisServer
  readonly nginx: Nginx
  readonly nodes: readonly [ClusterNode, ClusterNode]
  /** The MCP route of nginx. */
  readonly front: URL
  tokenFor(sub: string): Promise<string>
  stop(): Promise<void>
}

/** @param env Environment variables of both nodes, in addition to those that every cluster needs. */
export async function startCluster(env: Readonly<Record<string, string>>, path = '/mcp'): Promise<Cluster> {
  const [port, ...ports] = (await freePorts(3)) as [number, number, number]
  const front = new URL(`http://127.0.0.1:${port}${path}`)
  const redis = await startRedis()
  const key = await createSigningKey('ES256', 'key')
  const keys = await startKeyServer([key])
  const whole = {
    ISSUER: keys.origin,
    JWKS_URI: keys.jwksUri,
    RESOURCE: front.href,
    REDIS_URL: `redis://127.0.0.1:${redis.port}`,
    STATE_SECRET: 'a secret that all nodes of the test share',
    ...env,
  }
  const nodes = [new ClusterNode(ports[0], whole), new ClusterNode(ports[1], whole)] as const
  const stop = async (): Promise<void> => {
    await Promise.all(nodes.map((node) => node.kill()))
    await keys.stop()
    await redis.stop()
  }
  try {
    await Promise.all(nodes.map((node) => node.start()))
    const nginx = await startNginx(port, ports, path)
    return {
      redis,
      nginx,
      nodes,
      front,
      tokenFor: (sub) =>
        signToken(key, { iss: keys.origin, aud: front.href, sub, client_id: 'test', scope: 'mcp:read' }),
      async stop() {
        await nginx.stop()
        await stop()
      },
    }
  } catch (error) {
    await stop()
    throw error
  }
}
