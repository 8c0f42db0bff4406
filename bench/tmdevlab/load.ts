import { Agent, request } from 'node:http'
import { setTimeout } from 'node:timers/promises'

/** The virtual users of the published benchmark. */
const USERS = 50

export interface ShopLoad {
  readonly port: number
  readonly durationMs: number
  readonly token?: string | undefined
}

export interface ShopLoadResult {
  /** The counted requests: `initialize`, `tools/call`, and `tools/list`, as in the published benchmark. */
  readonly requests: number
  readonly requestsPerSecond: number
  /** The duration of each tool call in milliseconds. */
  readonly callsMs: readonly number[]
}

/**
 * Sends the requests of the published benchmark in its order: for each tool and for `tools/list`, each user sends
 * `initialize`, `notifications/initialized`, and the request, then pauses for 50 ms.
 * @throws if a result is not the expected one.
 */
export async function shopLoad({ port, durationMs, token }: ShopLoad): Promise<ShopLoadResult> {
  const agent = new Agent({ keepAlive: true, maxSockets: USERS })
  const endsAt = performance.now() + durationMs
  const callsMs: number[] = []
  let requests = 0

  const post = (message: object): Promise<string> =>
    new Promise((resolve, reject) => {
      const body = JSON.stringify({ jsonrpc: '2.0', ...message })
      const headers = {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'content-length': Buffer.byteLength(body),
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
      }
      const sent = request(
        { port, host: '127.0.0.1', path: '/mcp', method: 'POST', agent, headers },
        (response) => {
          let text = ''
          response.setEncoding('utf8').on('data', (chunk) => {
            text += chunk
          })
          response.on('end', () => resolve(text)).on('error', reject)
        },
      )
      sent.on('error', reject)
      sent.end(body)
    })

  const ask = async (method: string, params: object): Promise<any> => {
    await post({ id: 1, method: 'initialize', params: INITIALIZE })
    await post({ method: 'notifications/initialized' })
    const startedMs = performance.now()
    const text = await post({ id: 2, method, params })
    if (method === 'tools/call') callsMs.push(performance.now() - startedMs)
    requests += 2
    return JSON.parse(/^\{/.test(text) ? text : (/^data: (.*)$/m.exec(text)?.[1] ?? '{}')).result
  }

  const user = async (number: number): Promise<void> => {
    const user_id = `user-${String(number + 1).padStart(5, '0')}`
    while (performance.now() < endsAt) {
      for (const [name, args, isRight] of TOOLS) {
        const result = await ask('tools/call', {
          name,
          arguments: { ...args, ...(name !== SEARCH && { user_id }) },
        })
        const text = result?.content?.[0]?.text ?? '{}'
        if (!isRight(JSON.parse(text))) throw new Error(`${name}: ${JSON.stringify(result)}`)
      }
      const { tools } = await ask('tools/list', {})
      if (tools.length !== TOOLS.length) throw new Error(`tools/list: ${tools.length} tools`)
      await setTimeout(50)
    }
  }

  const startedMs = performance.now()
  await Promise.all(Array.from({ length: USERS }, (_, number) => user(number)))
  agent.destroy()
  return { requests, requestsPerSecond: (requests * 1_000) / (performance.now() - startedMs), callsMs }
}

const INITIALIZE = {
  protocolVersion: '2024-11-05',
  capabilities: {},
  clientInfo: { name: 'bench', version: '1.0' },
}
const SEARCH = 'search_products'

/** The tools with their arguments, and the checks of the published benchmark. */
const TOOLS: readonly (readonly [string, object, (result: any) => boolean])[] = [
  [
    SEARCH,
    { category: 'Electronics', min_price: 50, max_price: 500, limit: 10 },
    (result) =>
      result.total_found === 2251 && result.products.length === 10 && result.top10_popular_ids.length === 10,
  ],
  ['get_user_cart', {}, (result) => result.cart.items.length >= 1 && result.recent_history.length === 5],
  [
    'checkout',
    {
      items: [
        { product_id: 42, quantity: 2 },
        { product_id: 1337, quantity: 1 },
      ],
    },
    (result) => result.status === 'confirmed' && result.total > 0 && result.items_count === 2,
  ],
]
