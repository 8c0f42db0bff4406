import { execFile, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { Redis } from 'ioredis'
import { redisMissing, startRedis } from '../../test/support/redis.ts'
import { startIssuer } from '../issue-token.ts'
import { median, printRatios, recordRatio } from '../report.ts'
import { startHost } from '../started-host.ts'
import { shopLoad } from './load.ts'
import { seed } from './seed.ts'
import { ENV, GATED, NEWEST, OPEN, PUBLISHED } from './servers.ts'

/** The packages of the published server, whose package.json names these versions. */
const PINNED = ['@modelcontextprotocol/sdk@1.26.0', 'express@^4.19.0', 'ioredis@^5.3.2', 'zod@^3.25.0']
const SERVERS = [PUBLISHED, NEWEST, OPEN, GATED] as const
const ROUNDS = 5
const ROUND_MS = 5_000
const MIB = 1024 * 1024

interface Round {
  readonly requestsPerSecond: number
  readonly p50: number
  readonly p99: number
  /** The CPU time of the server for each counted request, in microseconds. */
  readonly cpu: number
  /** The mean resident memory of the server in MiB. */
  readonly memory: number
}

/** (l) Repeats the "MCP Server Performance Benchmark v2" of TM Dev Lab with one process for each server. */
export async function benchTmDevLab(): Promise<void> {
  const missing = redisMissing()
  if (missing !== undefined) {
    console.log(`\nThe shop of TM Dev Lab is skipped: ${missing}. Install Redis, and run the section again.`)
    return
  }
  const folder = await mkdtemp(join(tmpdir(), 'mcp-gatekit-bench-'))
  const redis = await startRedis({ isDurable: false })
  const catalog = fork(new URL('catalog.js', import.meta.url))
  try {
    const [port] = (await once(catalog, 'message')) as [number]
    await writeFile(join(folder, 'package.json'), '{}')
    await promisify(execFile)('npm', ['install', '--prefix', folder, '--no-audit', '--no-fund', ...PINNED])
    process.env[ENV.pinned] = folder
    process.env[ENV.api] = `http://127.0.0.1:${port}`
    process.env[ENV.redis] = `redis://127.0.0.1:${redis.port}`
    const issuer = await startIssuer('RS256')
    process.env[ENV.jwks] = JSON.stringify(issuer.jwks)
    print(await measure(redis.port, await issuer.issue()))
  } finally {
    catalog.disconnect()
    await redis.stop()
    await rm(folder, { recursive: true })
  }
}

async function measure(redisPort: number, token: string): Promise<Record<string, Round[]>> {
  const rounds: Record<string, Round[]> = Object.fromEntries(SERVERS.map((name) => [name, []]))
  const client = new Redis(redisPort, '127.0.0.1')
  const module = new URL('servers.js', import.meta.url)
  const hosts = await Promise.all(SERVERS.map(async (name) => [name, await startHost(module, name)] as const))
  try {
    for (let round = 0; round <= ROUNDS; round++) {
      for (const [name, host] of hosts) {
        await seed(client)
        const before = await host.ask('cpu')
        const load = shopLoad({
          port: host.port,
          durationMs: ROUND_MS,
          token: name === GATED ? token : undefined,
        })
        const memory: number[] = []
        for (let ms = 0; ms < ROUND_MS; ms += 1_000) {
          await setTimeout(1_000)
          memory.push((await host.ask('rss')) / MIB)
        }
        const { requests, requestsPerSecond, callsMs } = await load
        const cpu = ((await host.ask('cpu')) - before) / requests
        const sorted = callsMs.toSorted((one, other) => one - other)
        const at = (share: number) => sorted[Math.floor(sorted.length * share)] as number
        const mean = memory.reduce((sum, one) => sum + one) / memory.length
        // The first round warms up.
        if (round > 0)
          rounds[name]?.push({ requestsPerSecond, p50: at(0.5), p99: at(0.99), cpu, memory: mean })
      }
    }
  } finally {
    for (const [, host] of hosts) host.stop()
    client.disconnect()
  }
  return rounds
}

function print(rounds: Record<string, readonly Round[]>): void {
  const column = (part: keyof Round) =>
    Object.fromEntries(Object.entries(rounds).map(([name, own]) => [name, own.map((round) => round[part])]))
  printRatios(
    '(l) the shop of TM Dev Lab',
    column('requestsPerSecond'),
    PUBLISHED,
    'requests/s',
    column('cpu'),
  )
  console.log('\n| server | memory, MiB | median call, ms | 99th percentile, ms |\n|---|---|---|---|')
  for (const [name, own] of Object.entries(rounds)) {
    const of = (part: keyof Round, digits: number) => median(own.map((round) => round[part])).toFixed(digits)
    console.log(`| ${name} | ${of('memory', 0)} | ${of('p50', 1)} | ${of('p99', 1)} |`)
  }
  const memory = column('memory')
  const least = median(memory[PUBLISHED] ?? [])
  for (const name of [OPEN, GATED]) {
    recordRatio('(l) the shop of TM Dev Lab, memory', name, least / median(memory[name] ?? []))
  }
}
