import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { freePort } from '../test/support/free-port.ts'
import { median, printRatios } from './report.ts'
import { thinLoad } from './thin-load.ts'
import { AT_WORK, CALL_MODERN } from './tools-call.ts'

const NGINX = '/usr/sbin/nginx'
const ROUNDS = 7

/** (g) Compares nodes behind nginx with one node without nginx, and measures the CPU time of each part. This process sends the requests. */
export async function benchCluster(): Promise<void> {
  await measure('tools that do nothing', 'mcp-gatekit, 10 tools')
  await measure('tools that work for a while', AT_WORK)
}

async function measure(what: string, contestant: string): Promise<void> {
  const nodes = await Promise.all(Array.from({ length: 4 }, () => startNode(contestant)))
  const ports = nodes.map(({ port }) => port)
  const fronts = await Promise.all([
    startNginx(ports.slice(0, 1)),
    startNginx(ports.slice(0, 2)),
    startNginx(ports.slice(0, 2), { keepsClients: false }),
    startNginx(ports),
  ])
  const [single, both, closing, four] = fronts as [Front, Front, Front, Front]
  const contestants = [
    ['one node, no nginx', ports[0] as number, undefined],
    ['one node behind nginx', single.port, single],
    ['two nodes behind nginx', both.port, both],
    ['two nodes, a connection for each call', closing.port, closing],
    ['four nodes behind nginx', four.port, four],
  ] as const
  const figures = Object.fromEntries(contestants.map(([name]) => [name, [] as Round[]]))
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, port, front] of contestants) {
        await setTimeout(500)
        const used = async () => ({
          nodes: (await Promise.all(nodes.map((node) => node.cpuMicros()))).reduce(
            (sum, micros) => sum + micros,
          ),
          nginx: (await front?.cpuMicros()) ?? 0,
        })
        const before = await used()
        const result = await thinLoad({ port, connections: 50, durationMs: 2_000, request: CALL_MODERN })
        const after = await used()
        // The first round warms up.
        if (round === 0) continue
        const each = (micros: number) => micros / result.requests
        figures[name]?.push({
          requestsPerSecond: result.requestsPerSecond,
          load: each(result.cpuMicros),
          nginx: each(after.nginx - before.nginx),
          nodes: each(after.nodes - before.nodes),
        })
      }
    }
  } finally {
    for (const node of nodes) node.stop()
    for (const front of fronts) await front.stop()
  }
  const cores = cpus().length
  const load = loadavg().map((value) => value.toFixed(1))
  printRatios(
    `(g) tools/call, ${what}, on ${cores} cores, shared by nodes, nginx and the load; load average ${load.join(', ')}`,
    Object.fromEntries(
      Object.entries(figures).map(([name, rounds]) => [name, rounds.map((one) => one.requestsPerSecond)]),
    ),
    'one node behind nginx',
    'requests/s',
  )
  printCpu(figures, cores)
}

/** The figures of one contestant in one round. CPU times are in microseconds per request. */
interface Round {
  readonly requestsPerSecond: number
  readonly load: number
  readonly nginx: number
  readonly nodes: number
}

/** Prints the CPU seconds of 1,000 requests, and the requests per second that the cores allow. A node uses at most one core. */
function printCpu(figures: Record<string, readonly Round[]>, cores: number): void {
  console.log(
    `\n| CPU seconds of 1,000 requests | load | nginx | nodes | cores busy | ${cores} cores allow | a core per process allows |`,
  )
  console.log('|---|---|---|---|---|---|---|')
  for (const [name, rounds] of Object.entries(figures)) {
    const of = (part: keyof Round) => median(rounds.map((round) => round[part]))
    const [load, nginx, nodes] = [of('load'), of('nginx'), of('nodes')]
    const count = name.startsWith('four') ? 4 : name.startsWith('two') ? 2 : 1
    const all = load + nginx + nodes
    const busy = (of('requestsPerSecond') * all) / 1e6
    const alone = Math.min((count * 1e6) / nodes, 1e6 / nginx)
    const shared = Math.min((cores * 1e6) / all, alone)
    const seconds = [load, nginx, nodes].map((micros) => (micros / 1e3).toFixed(3))
    console.log(
      `| ${[name, ...seconds, busy.toFixed(2), Math.round(shared), Math.round(alone)].join(' | ')} |`,
    )
  }
}

interface Node {
  readonly port: number
  cpuMicros(): Promise<number>
  stop(): void
}

interface Front {
  readonly port: number
  /** The CPU time of the workers. Only Linux provides it; on other systems it is 0. */
  cpuMicros(): Promise<number>
  stop(): Promise<void>
}

async function startNode(contestant: string): Promise<Node> {
  const module = new URL('tools-call.js', import.meta.url)
  const child = fork(new URL('host.js', import.meta.url), [module.href, contestant])
  const [port] = (await once(child, 'message')) as [number]
  return {
    port,
    async cpuMicros() {
      child.send('cpu')
      const [micros] = (await once(child, 'message')) as [number]
      return micros
    },
    stop: () => child.disconnect(),
  }
}

/** Starts nginx with the settings of examples/cluster/nginx.conf on a free port. */
async function startNginx(ports: readonly number[], { keepsClients = true } = {}): Promise<Front> {
  const dir = await mkdtemp(join(tmpdir(), 'mcp-gatekit-bench-'))
  const port = await freePort()
  const given = await readFile(new URL('../../examples/cluster/nginx.conf', import.meta.url), 'utf8')
  const [first, second, ...others] = ports as [number, number?, ...number[]]
  const text = given
    .replace(/^.*:3002.*\n/gm, (line) => (second === undefined && !line.includes('~') ? '' : line))
    .replace(/^ *server 127\.0\.0\.1:3002 max_fails=0;\n/m, (line) =>
      [line, ...others.map((other) => line.replace('3002', String(other)))].join(''),
    )
    .replaceAll(':3001', `:${first}`)
    .replaceAll(':3002', `:${second}`)
    .replaceAll(':3000', `:${port}`)
    .replace('worker_processes auto;', process.getuid?.() === 0 ? 'user root;' : '')
    // Without a second node, its requests go to the first.
    .replace(/upstream node2 \{/, second === undefined ? `upstream node2 { server 127.0.0.1:${first};` : '$&')
    .replace(/^ *keepalive_timeout 0;\n/m, keepsClients ? '' : '$&')
  await writeFile(join(dir, 'nginx.conf'), text)
  const child = spawn(NGINX, ['-p', dir, '-c', join(dir, 'nginx.conf'), '-g', 'daemon off;'], {
    stdio: ['ignore', 'ignore', 'inherit'],
  })
  const ended = once(child, 'close')
  for (let tries = 0; tries < 50; tries++) {
    await setTimeout(100)
    const ready = await fetch(`http://127.0.0.1:${port}/`).then(
      () => true,
      () => false,
    )
    if (ready) break
  }
  return {
    port,
    async cpuMicros() {
      const { pid } = child
      const workers = await readFile(`/proc/${pid}/task/${pid}/children`, 'utf8').catch(() => '')
      const used = workers
        .trim()
        .split(' ')
        .filter(Boolean)
        .map(async (worker) => {
          // utime and stime in hundredths of a second: the 12th and 13th fields after the name.
          const fields = (await readFile(`/proc/${worker}/stat`, 'utf8')).replace(/^.*\) /, '').split(' ')
          return (Number(fields[11]) + Number(fields[12])) * 10_000
        })
      return (await Promise.all(used)).reduce((sum, micros) => sum + micros, 0)
    },
    async stop() {
      child.kill('SIGTERM')
      await ended
      await rm(dir, { recursive: true, force: true })
    },
  }
}
