import { type IncomingHttpHeaders, STATUS_CODES } from 'node:http'
import type { TelemetryEnvelope } from '../../src/telemetry/index.ts'
import { listen } from './listen.ts'

/** A request that the server received. */
export interface TargetRequest {
  readonly method: string | undefined
  /** Path and query. */
  readonly path: string
  readonly headers: IncomingHttpHeaders
  readonly body: string
  /** The parsed body. */
  readonly json: any
  /** The value of `performance.now()` when the request arrived. */
  readonly arrivedMs: number
  readonly status: number | 'hung' | 'broken'
}

export type TargetAnswer =
  | {
      readonly status: number
      readonly headers?: Readonly<Record<string, string>>
      readonly body?: string | object
    }
  /** Never responds (`hung`), or closes the connection without a response (`broken`). */
  | 'hung'
  | 'broken'

/** A local server that receives the messages of a transport. */
export class Target {
  /** The next responses, one per request. After them, the server responds as the service does. */
  readonly answers: TargetAnswer[] = []
  readonly requests: TargetRequest[] = []
  origin = ''
  port = 0
  readonly #respond: (request: Omit<TargetRequest, 'status'>) => TargetAnswer
  #waiting: { readonly count: number; readonly resolve: () => void }[] = []

  constructor(answer: (request: Omit<TargetRequest, 'status'>) => TargetAnswer) {
    this.#respond = answer
  }

  async start(): Promise<this> {
    const { origin, port } = await listen((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks).toString('utf8')
        const arrived = {
          method: request.method,
          path: request.url ?? '',
          headers: request.headers,
          body,
          json: parsed(body),
          arrivedMs: performance.now(),
        }
        const answer = this.answers.shift() ?? this.#respond(arrived)
        this.requests.push({ ...arrived, status: typeof answer === 'string' ? answer : answer.status })
        if (answer === 'broken') request.socket.destroy()
        else if (answer !== 'hung') {
          const { status, headers = {}, body: text = STATUS_CODES[status] ?? '' } = answer
          response.writeHead(status, {
            ...(typeof text === 'object' ? { 'content-type': 'application/json' } : {}),
            ...headers,
          })
          response.end(typeof text === 'object' ? JSON.stringify(text) : text)
        }
        this.#waiting = this.#waiting.filter(({ count, resolve }) => {
          if (this.requests.length < count) return true
          resolve()
          return false
        })
      })
    })
    this.origin = origin
    this.port = port
    return this
  }

  /** Resolves after `count` requests. */
  received(count: number): Promise<void> {
    if (this.requests.length >= count) return Promise.resolve()
    return new Promise((resolve) => this.#waiting.push({ count, resolve }))
  }

  /** The bodies of the requests that got a 200. */
  get taken(): any[] {
    return this.requests.filter(({ status }) => status === 200).map(({ json }) => json)
  }
}

/** Starts a server that responds with 200 to every request. */
export function startCollector(): Promise<Target> {
  return new Target(() => ({ status: 200, body: 'ok' })).start()
}

/** Starts a server that responds like Slack's incoming webhooks. It adds the reason to `invalid_blocks`; Slack does not. */
export function startSlack(): Promise<Target> {
  return new Target((request) => {
    const problem = posted(request) ?? slackProblem(request.json)
    return problem === undefined
      ? { status: 200, body: 'ok' }
      : { status: 400, body: `invalid_blocks ${problem}` }
  }).start()
}

/** Starts a server that responds like Discord's webhooks. */
export function startDiscord(): Promise<Target> {
  return new Target((request) => {
    const problem = posted(request) ?? discordProblem(request.json)
    if (problem !== undefined)
      return { status: 400, body: { code: 50035, message: 'Invalid Form Body', problem } }
    const kept = new URL(request.path, 'http://x').searchParams.get('wait') === 'true'
    return kept ? { status: 200, body: { id: '1' } } : { status: 204, body: '' }
  }).start()
}

/** Starts a server that responds like Telegram's Bot API for the bot with this token. */
export function startTelegram(token: string): Promise<Target> {
  return new Target((request) => {
    const refuse = (error_code: number, description: string): TargetAnswer => ({
      status: error_code,
      body: { ok: false, error_code, description },
    })
    if (request.path !== `/bot${token}/sendMessage`) return refuse(404, 'Not Found')
    const problem = posted(request) ?? telegramProblem(request.json)
    if (problem !== undefined) return refuse(400, `Bad Request: ${problem}`)
    return { status: 200, body: { ok: true, result: { message_id: 1 } } }
  }).start()
}

/** Returns an envelope with the members that a manager sets. */
export function anEvent(members: Partial<TelemetryEnvelope> = {}): TelemetryEnvelope {
  return {
    name: 'billing.invoice.failed',
    time: '2026-11-20T12:00:00.123Z',
    level: 'error',
    service: 'billing',
    environment: 'test',
    sessionId: 'ses_0',
    ...members,
  }
}

function parsed(body: string): any {
  try {
    return JSON.parse(body)
  } catch {
    return undefined
  }
}

function posted({ method, headers, json }: Omit<TargetRequest, 'status'>): string | undefined {
  if (method !== 'POST') return 'not a POST'
  if (!headers['content-type']?.startsWith('application/json')) return 'not JSON by its type'
  if (!isObject(json)) return 'not a JSON object'
  return illFormed(json) ? 'a string is not valid UTF-8' : undefined
}

const isObject = (value: unknown): value is Record<string, any> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const isText = (value: unknown, least: number, most: number): value is string =>
  typeof value === 'string' && value.length >= least && value.length <= most

const isInteger = (value: unknown, least: number, most: number): value is number =>
  Number.isInteger(value) && (value as number) >= least && (value as number) <= most

/** Returns `true` if a string anywhere in `value` has a lone surrogate. */
function illFormed(value: unknown): boolean {
  if (typeof value === 'string') return /\p{Surrogate}/u.test(value)
  return typeof value === 'object' && value !== null && Object.values(value).some(illFormed)
}

function unknownKey(value: object, known: readonly string[]): string | undefined {
  const key = Object.keys(value).find((name) => !known.includes(name))
  return key === undefined ? undefined : `unknown member ${key}`
}

const SLACK_MEMBERS = ['text', 'blocks', 'username', 'icon_emoji', 'unfurl_links', 'unfurl_media']

function slackProblem(message: Record<string, any>): string | undefined {
  const { text, blocks, username, icon_emoji } = message
  const unknown = unknownKey(message, SLACK_MEMBERS)
  if (unknown !== undefined) return unknown
  if (!isText(text, 1, 4000)) return 'no_text, or text longer than Slack shows'
  if (!escaped(text)) return 'text is not escaped'
  if (!isText(username, 1, 80)) return 'username'
  if (typeof icon_emoji !== 'string' || !/^:[^:\s]+:$/.test(icon_emoji)) return 'icon_emoji'
  if (!Array.isArray(blocks) || blocks.length < 1 || blocks.length > 50) return 'number of blocks'
  const problem = blocks.map(blockProblem).find((found) => found !== undefined)
  if (problem !== undefined) return problem
  return JSON.stringify(blocks).length > 13_200 ? 'msg_blocks_too_long' : undefined
}

function blockProblem(block: unknown): string | undefined {
  if (!isObject(block)) return 'block is not an object'
  switch (block.type) {
    case 'header':
      return block.text?.type === 'plain_text' ? textProblem(block.text, 150) : 'header is not plain_text'
    case 'section': {
      if (block.text === undefined && block.fields === undefined) return 'empty section'
      const fields: unknown[] = block.fields ?? []
      if (!Array.isArray(fields) || fields.length > 10) return 'number of fields'
      return [
        block.text === undefined ? undefined : textProblem(block.text, 3000),
        ...fields.map((field) => textProblem(field, 2000)),
      ].find((problem) => problem !== undefined)
    }
    case 'context': {
      if (!Array.isArray(block.elements) || block.elements.length < 1 || block.elements.length > 10)
        return 'number of elements'
      return block.elements
        .map((element) => textProblem(element, 2000))
        .find((problem) => problem !== undefined)
    }
    case 'divider':
      return undefined
    default:
      return 'type of block'
  }
}

function textProblem(text: unknown, most: number): string | undefined {
  if (!isObject(text)) return 'text is not an object'
  if (!isText(text.text, 1, most)) return 'length of text'
  if (text.type === 'plain_text') return unknownKey(text, ['type', 'text', 'emoji'])
  if (text.type !== 'mrkdwn') return 'type of text'
  return escaped(text.text) ? unknownKey(text, ['type', 'text', 'verbatim']) : 'mrkdwn is not escaped'
}

/** Returns `true` if `&` appears only in escapes, and `<` and `>` do not appear. */
const escaped = (text: string): boolean => !/[<>]|&(?!(?:amp|lt|gt);)/.test(text)

function discordProblem(message: Record<string, any>): string | undefined {
  const { username, avatar_url, embeds, allowed_mentions } = message
  const unknown = unknownKey(message, ['username', 'avatar_url', 'embeds', 'allowed_mentions'])
  if (unknown !== undefined) return unknown
  if (!isText(username, 1, 80) || /discord|clyde/i.test(username)) return 'USERNAME_INVALID_CONTAINS'
  if (avatar_url !== undefined && !/^https?:/.test(avatar_url)) return 'avatar_url'
  if (JSON.stringify(allowed_mentions) !== '{"parse":[]}') return 'the message could mention a user'
  if (!Array.isArray(embeds) || embeds.length !== 1) return 'not one embed'
  const [embed] = embeds
  if (!isObject(embed)) return 'embed is not an object'
  const { title, description, color, footer, timestamp } = embed
  const members = ['title', 'description', 'color', 'footer', 'timestamp']
  if (unknownKey(embed, members) !== undefined) return unknownKey(embed, members)
  if (!isShown(title, 256)) return 'title'
  if (description !== undefined && !isShown(description, 4096)) return 'description'
  if (!isInteger(color, 0, 0xffffff)) return 'color'
  if (!isObject(footer) || !isShown(footer.text, 2048)) return 'footer'
  if (timestamp !== undefined && !isTime(timestamp)) return 'timestamp'
  return title.length + (description?.length ?? 0) + footer.text.length > 6000
    ? 'MAX_EMBED_SIZE_EXCEEDED'
    : undefined
}

const isShown = (value: unknown, most: number): value is string =>
  isText(value, 1, most) && value.trim() !== ''

const isTime = (value: unknown): boolean =>
  typeof value === 'string' && /^\d{4}-\d\d-\d\dT/.test(value) && !Number.isNaN(Date.parse(value))

function telegramProblem(message: Record<string, any>): string | undefined {
  const { chat_id, text, entities } = message
  const unknown = unknownKey(message, ['chat_id', 'text', 'entities', 'link_preview_options'])
  if (unknown !== undefined) return unknown
  if (!/^-?\d+$|^@\w+$/.test(String(chat_id))) return 'chat not found'
  if (!isText(text, 1, 4096)) return 'message is too long, or empty'
  if (text !== text.trim()) return 'text would be trimmed, and entities move'
  if (!Array.isArray(entities) || entities.length > 100) return 'entities'
  let end = 0
  for (const { type, offset, length } of entities) {
    if (!['bold', 'code', 'pre'].includes(type)) return 'entity type'
    if (!isInteger(offset, end, text.length) || !isInteger(length, 1, text.length - offset))
      return 'ENTITY_BOUNDS_INVALID'
    end = offset + length
    if (splits(text, offset)) return 'entity begins in a middle of a UTF-16 symbol'
    if (splits(text, end)) return 'entity ends in a middle of a UTF-16 symbol'
    if (text.slice(offset, end).trim() === '') return 'entity of nothing'
  }
  return undefined
}

const splits = (text: string, offset: number): boolean =>
  /[\ud800-\udbff]/.test(text.charAt(offset - 1)) && /[\udc00-\udfff]/.test(text.charAt(offset))
