import { fork, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { cpus, tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import autocannon from 'autocannon'
import { printRatios } from './report.ts'
import { CALL_MODERN } from './tools-call.ts'

const NGINX = '/usr/sbin/nginx'
const ROUNDS = 7

/** (g) Nodes behind nginx, against one without anything in front. The load comes from this process. */
export async function benchCluster(): Promise<void> {
  const nodes = await Promise.all([startNode(), startNode()])
  const [one, two] = nodes as [Node, Node]
  const fronts = await Promise.all([startNginx([one.port]), startNginx([one.port, two.port])])
  const contestants = [
    ['one node, no nginx', one.port],
    ['one node behind nginx', fronts[0]?.port],
    ['two nodes behind nginx', fronts[1]?.port],
  ] as const
  const figures: Record<string, number[]> = Object.fromEntries(contestants.map(([name]) => [name, []]))
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, port] of contestants) {
        await setTimeout(500)
        const url = `http://127.0.0.1:${port}/mcp`
        const result = await autocannon({ url, connections: 50, duration: 2, ...CALL_MODERN })
        if (result.non2xx > 0 || result.errors > 0) throw new Error(`${name}: ${result.non2xx} refused`)
        // The first round warms up.
        if (round > 0) figures[name]?.push(result.requests.average)
      }
    }
  } finally {
    for (const node of nodes) node.stop()
    for (const front of fronts) await front.stop()
  }
  const title = `(g) tools/call on ${cpus().length} cores, shared by nodes, nginx and the load`
  printRatios(title, figures, 'one node behind nginx', 'requests/s')
}

interface Node {
  readonly port: number
  stop(): void
}

async function startNode(): Promise<Node> {
  const module = new URL('tools-call.js', import.meta.url)
  const child = fork(new URL('host.js', import.meta.url), [module.href, 'mcp-gatekit, 10 tools'])
  const [port] = (await once(child, 'message')) as [number]
  return { port, stop: () => child.disconnect() }
}

/** nginx with the settings of examples/cluster/nginx.conf, on a port that the system chose a moment before. */
async function startNginx(ports: readonly number[]): Promise<{ port: number; stop(): Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), 'mcp-gatekit-bench-'))
  const port = await freePort()
  const given = await readFile(new URL('../../examples/cluster/nginx.conf', import.meta.url), 'utf8')
  const [first, second] = ports as [number, number?]
  const text = given
    .replace(/^.*:3002.*\n/gm, (line) => (second === undefined && !line.includes('~') ? '' : line))
    .replaceAll(':3001', `:${first}`)
    .replaceAll(':3002', `:${second}`)
    .replaceAll(':3000', `:${port}`)
    .replace('worker_processes auto;', process.getuid?.() === 0 ? 'user root;' : '')
    // Without a second node there is nothing for these but the first.
    .replace(/upstream node2 \{/, second === undefined ? `upstream node2 { server 127.0.0.1:${first};` : '$&')
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
    async stop() {
      child.kill('SIGTERM')
      await ended
      await rm(dir, { recursive: true, force: true })
    },
  }
}

async function freePort(): Promise<number> {
  const { createServer } = await import('node:net')
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}
