/** The events of a process: a webhook and a reader that polls learn of each event, or that they have missed some. */
import { z } from 'zod'
import { adapterWith } from '../../src/mcp/adapter.ts'
import { KitMcpRouter } from '../../src/mcp/router/router.ts'
import { ISSUER, Service } from './services.ts'

const HOST = 'events.example.com'
const POLL_MS = 60_000
const SECRET = `whsec_${Buffer.alloc(32, 1).toString('base64')}`

/** The receiver of all webhooks. It refuses every fifth message. */
export class EventReceiver {
  /** The ids of events that have arrived, by process. `gap` stands for those that were given up. */
  readonly received = new Map<string, Set<string>>()
  readonly service: Service

  constructor() {
    this.service = new Service(HOST, (req, body, res) => {
      const { type, challenge, data } = JSON.parse(body)
      const known = this.received.get(String(req.url)) ?? new Set()
      this.received.set(String(req.url), known)
      if (type === undefined && this.service.requests % 5 === 0) return void res.writeHead(503).end()
      if (type !== 'verification') known.add(data?.id ?? type)
      res.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify({ challenge }))
    })
  }
}

export class EventFeed {
  readonly #path: string
  readonly #receiver: EventReceiver
  readonly #adapter = adapterWith(
    {
      router: KitMcpRouter.create().event('effect', {
        description: 'A tool has run',
        payload: z.object({ id: z.string() }),
      }),
      oauth: {
        issuer: ISSUER,
        verifyToken: () => ({ valid: true as const, user: { id: 'reader' }, scopes: [] }),
      },
      telemetry: false,
    },
    {
      lookup: (_host, _options, callback) => callback(null, [{ address: '192.0.2.1', family: 4 }]),
      isAllowed: () => true,
    },
  )
  readonly #emitted = new Set<string>()
  readonly #polled = new Set<string>()
  #cursor: string | undefined
  #timer: ReturnType<typeof setTimeout> | undefined
  #isClosed = false

  constructor(process: string, receiver: EventReceiver) {
    this.#path = `/${process}`
    this.#receiver = receiver
    void this.#poll()
  }

  emit(id: string): void {
    if (this.#cursor === undefined || !this.#receiver.received.has(this.#path)) return
    this.#adapter.events.emit('effect', { id }).then(
      () => this.#emitted.add(id),
      () => undefined,
    )
  }

  /** Returns the ids of events that neither the webhook nor the reader has learned of, although `emit` has resolved. */
  missing(): readonly string[] {
    const received = this.#receiver.received.get(this.#path)
    return [...this.#emitted].filter(
      (id) =>
        (!this.#polled.has(id) && !this.#polled.has('truncated')) ||
        (received?.has(id) !== true && received?.has('gap') !== true),
    )
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#adapter.events.close()
  }

  async #poll(): Promise<void> {
    const delivery = { url: `https://${HOST}${this.#path}`, secret: SECRET }
    await this.#ask('events/subscribe', { delivery })
    const page = await this.#ask('events/poll', this.#cursor === undefined ? {} : { cursor: this.#cursor })
    for (const { data } of page.events ?? []) this.#polled.add(data.id)
    if (page.truncated === true) this.#polled.add('truncated')
    this.#cursor = page.cursor ?? this.#cursor
    if (!this.#isClosed) this.#timer = setTimeout(() => void this.#poll(), POLL_MS)
  }

  async #ask(method: string, params: object): Promise<any> {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { name: 'effect', ...params } })
    const headers = {
      accept: 'application/json, text/event-stream',
      authorization: 'Bearer token',
      'content-type': 'application/json',
      'mcp-protocol-version': '2025-11-25',
    }
    const request = new Request('https://mcp.example.com/mcp', { method: 'POST', headers, body })
    const text = await (await this.#adapter.handler(request)).text()
    return JSON.parse(text.slice(text.indexOf('{'))).result ?? {}
  }
}
