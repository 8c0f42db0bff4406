import autocannon from 'autocannon'
import { contestants as gates } from './gate.ts'
import { measureLoad } from './load.ts'
import { median, printRatios } from './report.ts'
import { startHost } from './started-host.ts'
import { CALL_MODERN, FLOOR, contestants as servers } from './tools-call.ts'

/** Long enough for the engine to compile the code of a request. */
const WARM_UP_SECONDS = 5
const SECONDS = 5
const ROUNDS = 3
const CONNECTIONS = 50

const CALL = 'mcp-gatekit, 10 tools'
const GATE = 'mcp-gatekit mcpAuth'

interface Profiled {
  readonly title: string
  readonly module: URL
  readonly name: string
  readonly request: Pick<autocannon.Options, 'method' | 'headers' | 'body'>
}

const PROFILED: readonly Profiled[] = [
  {
    title: 'a request through mcpAuth to a trivial route',
    module: new URL('gate.js', import.meta.url),
    name: GATE,
    request: { headers: { authorization: 'Bearer good-token' } },
  },
  {
    title: 'a tools/call with 10 tools',
    module: new URL('tools-call.js', import.meta.url),
    name: CALL,
    request: CALL_MODERN,
  },
]

/**
 * (p) Prints the share of the samples of a processor profile that are in code of this package, and the cost of a call over what
 * every server has to do. Other load on the machine hardly changes these figures.
 */
export async function benchProfile(): Promise<void> {
  if (!(GATE in gates && CALL in servers)) throw new Error('The contestants have other names.')
  console.log(
    '\n### (p) share of samples in code of this package\n\n| what | median | min to max |\n|---|---|---|',
  )
  for (const { title, module, name, request } of PROFILED) {
    const shares: number[] = []
    for (let round = 0; round < ROUNDS; round++) shares.push(await shareOf(module, name, request))
    const percent = (share: number) => `${(100 * share).toFixed(1)} %`
    const range = `${percent(Math.min(...shares))} to ${percent(Math.max(...shares))}`
    console.log(`| ${title} | ${percent(median(shares))} | ${range} |`)
  }
  const { rounds, cpu } = await measureLoad({
    module: new URL('tools-call.js', import.meta.url),
    names: [CALL, FLOOR],
    request: CALL_MODERN,
    path: '/mcp',
    expectStatus: 200,
  })
  printRatios('(p) a tools/call and its floor', rounds, CALL, 'requests/s', cpu)
}

async function shareOf(module: URL, name: string, request: Profiled['request']): Promise<number> {
  const host = await startHost(module, name)
  const load = async (duration: number): Promise<void> => {
    const url = `http://127.0.0.1:${host.port}/mcp`
    const result = await autocannon({ url, connections: CONNECTIONS, duration, ...request })
    if (result.errors > 0 || result.non2xx > 0) throw new Error(`${name}: ${JSON.stringify(result)}`)
  }
  try {
    await load(WARM_UP_SECONDS)
    await host.ask('profile')
    await load(SECONDS)
    return await host.ask('profiled')
  } finally {
    host.stop()
  }
}
