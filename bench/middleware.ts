import { z } from 'zod'
import { createMcpAdapter, type FetchHandler } from '../src/mcp/adapter.ts'
import { KitMcpRouter } from '../src/mcp/router/router.ts'
import { median, recordRatio } from './report.ts'

const TITLE = '(i) tools/call, middleware that only calls next'
const CALLS_PER_ROUND = 100
const ROUNDS = 600
/** The number of rounds that are not counted. */
const WARM_UP = 60

/** The numbers of middleware that are compared. */
const NONE = 0
const ONE = 1
const MANY = 11

/** Returns the web-standard handler of a server whose tool runs inside `count` middleware that only call `next`. */
function handlerWith(count: number): FetchHandler {
  let router = KitMcpRouter.create()
  for (let index = 0; index < count; index++) router = router.use((_call, next) => next())
  const input = z.object({ a: z.number(), b: z.number() })
  return createMcpAdapter({
    router: router.tool('add', { description: 'Adds', input }, ({ a, b }) => String(a + b)),
  }).server
}

const BODY = JSON.stringify({
  jsonrpc: '2.0',
  id: 1,
  method: 'tools/call',
  params: { name: 'add', arguments: { a: 1, b: 2 } },
})

async function callOnce(handler: FetchHandler): Promise<void> {
  const response = await handler(
    new Request('http://localhost:3000/mcp', {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2025-11-25',
      },
      body: BODY,
    }),
  )
  const text = await response.text()
  if (!text.includes('"3"')) throw new Error(`unexpected response: ${text}`)
}

/** Returns the time of a call in µs. */
async function timeOf(handler: FetchHandler): Promise<number> {
  const startedAt = performance.now()
  for (let call = 0; call < CALLS_PER_ROUND; call++) await callOnce(handler)
  return ((performance.now() - startedAt) * 1000) / CALLS_PER_ROUND
}

/** (i) Measures what middleware that only calls `next` adds to a call, in process. */
export async function benchMiddleware(): Promise<void> {
  const handlers = new Map([NONE, ONE, MANY].map((count) => [count, handlerWith(count)] as const))
  const rounds: Map<number, number>[] = []
  for (let round = 0; round < WARM_UP + ROUNDS; round++) {
    const times = new Map<number, number>()
    // The first contestant changes, so that none always runs after the collection of garbage of another.
    const entries = [...handlers]
    const first = round % entries.length
    for (const [count, handler] of [...entries.slice(first), ...entries.slice(0, first)])
      times.set(count, await timeOf(handler))
    if (round >= WARM_UP) rounds.push(times)
  }
  const of = (count: number) => rounds.map((times) => times.get(count) as number)
  const between = (more: number, fewer: number) =>
    median(
      rounds.map((times) => ((times.get(more) as number) - (times.get(fewer) as number)) / (more - fewer)),
    )
  for (const count of [ONE, MANY]) {
    const ratios = rounds.map((times) => (times.get(NONE) as number) / (times.get(count) as number))
    recordRatio(TITLE, `mcp-gatekit, ${count} middleware`, median(ratios))
  }
  console.log(`\n### ${TITLE}\n`)
  console.log('| middleware | µs per call | µs more for each middleware |\n|---|---|---|')
  console.log(`| none | ${median(of(NONE)).toFixed(1)} | – |`)
  console.log(`| 1 | ${median(of(ONE)).toFixed(1)} | ${between(ONE, NONE).toFixed(2)} |`)
  console.log(`| ${MANY} | ${median(of(MANY)).toFixed(1)} | ${between(MANY, ONE).toFixed(2)} |`)
}
