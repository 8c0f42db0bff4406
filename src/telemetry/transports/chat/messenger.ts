import { optional, type RulesFor } from '../../../options/option-rules.ts'
import type { TelemetryLevel } from '../../levels.ts'
import { telemetryOptions } from '../../options.ts'
import { readObject, secondsToMs } from '../http/http-target.ts'
import {
  CONNECTION_RULES,
  checkUrl,
  readTargetOptions,
  type TargetConnectionOptions,
} from '../http/target-options.ts'
import { minLevel } from '../transport-options.ts'
import { ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

const { invalidKind, milliseconds, secret, unusableOption } = telemetryOptions

/** The options of `MessengerTransportAdapter.create()`. */
export interface MessengerTransportOptions extends TargetConnectionOptions {
  /** The token of a Telegram bot. It is not part of error messages. */
  readonly botToken: string
  /** The chat that receives the messages: its number as a string, or `@channel`. The bot must be allowed to write to it. */
  readonly chatId: string
  /** The minimum level. Events below it are ignored. Defaults to `error`. */
  readonly minLevel?: TelemetryLevel | undefined
  /**
   * Groups events of the same name, level, and kind of error, in milliseconds. The first one is sent at once. The following ones
   * are counted, and one message with their number and the latest of them is sent after this time, or at a flush. Defaults to 0:
   * every event is sent.
   */
  readonly groupMs?: number | undefined
  /** The URL of the Bot API server. Defaults to `https://api.telegram.org`. */
  readonly apiRoot?: string | undefined
}

const RULES = {
  botToken: checkToken,
  chatId: secret,
  minLevel: optional(minLevel, 'error'),
  groupMs: optional(milliseconds(0), 0),
  apiRoot: optional(checkApiRoot, 'https://api.telegram.org'),
  ...CONNECTION_RULES,
} satisfies RulesFor<MessengerTransportOptions>

/** Telegram accepts one message per second in a private chat, and 20 per minute in a group or channel. */
const PRIVATE_PACE_MS = 1000
const GROUP_PACE_MS = 3000

/**
 * Sends messages about events to a Telegram chat. Events within 50 ms, or during a pause, become one message with the most
 * severe event in full and the number of the others. At most one message is sent per second, and in a group every three
 * seconds. It is sent again only after 429, at the time that Telegram names, or if a group has become a supergroup. After
 * 401, 403, 404, or 410, the transport stops.
 *
 * @example
 * ```ts
 * import { KitTelemetry, MessengerTransportAdapter } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(
 *   MessengerTransportAdapter.create({ botToken: process.env.BOT_TOKEN ?? '', chatId: '-1001234567890' }),
 * )
 * ```
 * @see docs/reference/transports.md
 */
export class MessengerTransportAdapter extends ChatTransport {
  /**
   * Creates the transport.
   * @param options the bot, the chat, and which events to send.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid. The message contains neither
   * the token nor the chat.
   */
  static create(options: MessengerTransportOptions): MessengerTransportAdapter {
    const { botToken, chatId, minLevel, groupMs, apiRoot, ...connection } = readTargetOptions(
      'MessengerTransportAdapter.create',
      options,
      RULES,
      ['botToken', 'chatId'],
    )
    const url = `${new URL(apiRoot).href.replace(/(?<!\/)\/+$/, '')}/bot${botToken}/sendMessage`
    let chat = chatId
    return new MessengerTransportAdapter({
      connection,
      type: 'messenger',
      service: 'Telegram',
      minLevel,
      groupMs,
      paceMs: /^\d/.test(chatId) ? PRIVATE_PACE_MS : GROUP_PACE_MS,
      url,
      message: (digest) => telegramMessage(digest, chat),
      waitMs: ({ body }) => secondsToMs(parametersOf(body).retry_after),
      sendAgain: ({ body }) => {
        const moved = parametersOf(body).migrate_to_chat_id
        if (!Number.isSafeInteger(moved) || String(moved) === chat) return false
        chat = String(moved)
        return true
      },
      advice: {
        refused: 'check chatId, and that the bot is in that chat',
        gone: 'check botToken, and that the bot may write to the chat',
      },
    })
  }
}

function checkToken(option: string, value: unknown, given: Readonly<Record<string, unknown>>): string {
  const token = secret(option, value, given)
  if (/[\s/?#\\%]/.test(token)) {
    throw invalidKind(
      option,
      "must be a bot's token from BotFather: digits, a colon, then letters, digits, _, and -",
      value,
    )
  }
  return token
}

function checkApiRoot(option: string, value: unknown): string {
  const root = checkUrl(option, value)
  const { search, hash } = new URL(root)
  if (search !== '' || hash !== '') {
    throw unusableOption(option, "must not have a query or a fragment, as in 'https://api.telegram.org'")
  }
  return root
}

function parametersOf(body: string): Readonly<Record<string, unknown>> {
  const { parameters } = readObject(body)
  return typeof parameters === 'object' && parameters !== null ? (parameters as Record<string, unknown>) : {}
}

interface Entity {
  readonly type: 'bold' | 'code' | 'pre'
  /** The offset in UTF-16 units. */
  readonly offset: number
  readonly length: number
}

/**
 * Returns a message of at most 4096 characters. It is formatted by `entities`, so that nothing needs escaping. All strings of
 * an event are code, because Telegram creates links and mentions everywhere else.
 */
function telegramMessage(digest: Digest, chatId: string): object {
  const { level, name, more, details, origin } = digest
  const entities: Entity[] = []
  let text = ''
  const write = (part: string, type?: Entity['type']) => {
    if (type !== undefined) entities.push({ type, offset: text.length, length: part.length })
    text += part
  }
  write(level.toUpperCase(), 'bold')
  write(' ')
  write(name, 'code')
  write(more)
  for (const detail of details) {
    write('\n')
    write(detail, 'pre')
  }
  write('\n')
  write(origin, 'code')
  return { chat_id: chatId, text, entities, link_preview_options: { is_disabled: true } }
}
