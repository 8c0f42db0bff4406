import type { TelemetryLevel } from '../../levels.ts'
import { telemetryOptions } from '../../options.ts'
import { readObject, secondsToMs } from '../http/http-target.ts'
import {
  CONNECTION_CHECKS,
  checkMinLevel,
  checkUrl,
  readTargetOptions,
  type TargetConnectionOptions,
} from '../http/target-options.ts'
import { ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

const { checkSecret, invalidKind, unusableOption } = telemetryOptions

/** What `MessengerTransportAdapter.create()` takes. */
export interface MessengerTransportOptions extends TargetConnectionOptions {
  /** The token of a Telegram bot. Appears in no error. */
  readonly botToken: string
  /** A chat in which the bot may write: its number as a string, or `@channel`. */
  readonly chatId: string
  /** Events below it are left out. Default `error`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** The Bot API server, for one of your own. Default `https://api.telegram.org`. */
  readonly apiRoot?: string | undefined
}

/** Telegram takes a message a second in a private chat, and 20 a minute in a group or channel. */
const PRIVATE_PACE_MS = 1000
const GROUP_PACE_MS = 3000

/**
 * Tells a Telegram chat of events. Events within 50 ms, or while Telegram must be left alone, become one message: the
 * most severe in full, the others counted. A message is sent at most once a second, in a group every three, and once
 * more only after 429, at the time that Telegram names, and where a group has become a supergroup. At 401, 403, 404 and
 * 410 the transport stops for good.
 *
 * @example
 * MessengerTransportAdapter.create({ botToken: '123456:…', chatId: '-1001234567890' })
 */
export class MessengerTransportAdapter extends ChatTransport {
  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be. Neither the token nor
   * the chat is in any message.
   */
  static create(options: MessengerTransportOptions): MessengerTransportAdapter {
    const {
      botToken,
      chatId,
      minLevel = 'error',
      apiRoot = 'https://api.telegram.org',
      ...connection
    } = readTargetOptions('MessengerTransportAdapter', options, ['botToken', 'chatId'], {
      botToken: checkToken,
      chatId: checkSecret,
      minLevel: checkMinLevel,
      apiRoot: checkApiRoot,
      ...CONNECTION_CHECKS,
    })
    const url = `${new URL(apiRoot).href.replace(/(?<!\/)\/+$/, '')}/bot${botToken}/sendMessage`
    let chat = chatId
    return new MessengerTransportAdapter({
      adapter: 'MessengerTransportAdapter',
      connection,
      type: 'messenger',
      service: 'Telegram',
      minLevel,
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

function checkToken(option: string, value: unknown): void {
  checkSecret(option, value)
  if (/[\s/?#\\%]/.test(value as string)) {
    throw invalidKind(
      option,
      "must be a bot's token from BotFather: digits, a colon, then letters, digits, _, and -",
      value,
    )
  }
}

function checkApiRoot(option: string, value: unknown): void {
  checkUrl(option, value)
  const { search, hash } = new URL(value as string)
  if (search !== '' || hash !== '') {
    throw unusableOption(option, "must not have a query or a fragment, as in 'https://api.telegram.org'")
  }
}

function parametersOf(body: string): Readonly<Record<string, unknown>> {
  const { parameters } = readObject(body)
  return typeof parameters === 'object' && parameters !== null ? (parameters as Record<string, unknown>) : {}
}

interface Entity {
  readonly type: 'bold' | 'code' | 'pre'
  /** In UTF-16 units, as is the length. */
  readonly offset: number
  readonly length: number
}

/**
 * Within 4096 characters. Formatted by `entities`, so that no text needs escaping. Every text of an event is code, because
 * Telegram makes links and mentions of its own everywhere else.
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
