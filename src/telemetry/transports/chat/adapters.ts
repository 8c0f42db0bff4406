import { optional, type RulesFor } from '../../../base/options/option-rules.ts'
import type { TelemetryLevel } from '../../levels.ts'
import { telemetryOptions } from '../../options.ts'
import { readObject, secondsToMs } from '../http/http-target.ts'
import { CONNECTION_RULES, checkUrl, readTargetOptions } from '../http/target-options.ts'
import { minLevel } from '../transport-options.ts'
import { type ChatFormat, type ChatOptions, type ChatResponse, ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

const { invalidKind, invalidOption, milliseconds, secret, text, unusableOption } = telemetryOptions

/** The rule of `groupMs`. */
const groupMs = optional(milliseconds(0), 0)

/** The options of `TeamChatTransportAdapter.create()`. */
export interface TeamChatTransportOptions extends ChatOptions {
  /** The URL of a Slack incoming webhook. It is a secret, and is not part of error messages. */
  readonly webhookUrl: string
  /** The name of the sender. Only legacy webhooks support it. Defaults to `Kit Telemetry`. */
  readonly username?: string | undefined
  /** The icon of the sender, as an emoji name between colons. Only legacy webhooks support it. Defaults to `:bar_chart:`. */
  readonly iconEmoji?: string | undefined
}

const SLACK_RULES = {
  webhookUrl: checkUrl,
  minLevel: optional(minLevel, 'warn'),
  groupMs,
  username: optional(text, 'Kit Telemetry'),
  iconEmoji: optional(checkEmoji, ':bar_chart:'),
  ...CONNECTION_RULES,
} satisfies RulesFor<TeamChatTransportOptions>

/**
 * Sends messages about events to a Slack channel, with Block Kit. Events within 50 ms, or during a pause, become one message
 * with the most severe event in full and the number of the others. At most one message is sent per second. It is sent again
 * only after 429, at the time that Slack names. After 401, 403, 404, or 410, the transport stops.
 *
 * @example
 * ```ts
 * import { KitTelemetry, TeamChatTransportAdapter } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(
 *   TeamChatTransportAdapter.create({ webhookUrl: process.env.SLACK_WEBHOOK_URL ?? '', minLevel: 'error' }),
 * )
 * ```
 * @see docs/reference/transports.md
 */
export class TeamChatTransportAdapter extends ChatTransport {
  /**
   * Creates the transport.
   * @param options the webhook, and which events to send.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid. The message does not contain
   * the URL of the webhook.
   */
  static create(options: TeamChatTransportOptions): TeamChatTransportAdapter {
    const read = readTargetOptions('TeamChatTransportAdapter.create', options, SLACK_RULES, ['webhookUrl'])
    const { webhookUrl: url, username, iconEmoji, ...common } = read
    const format: ChatFormat = {
      type: 'team-chat',
      service: 'Slack',
      // Slack accepts about one message per second.
      paceMs: 1000,
      advice: {
        refused: 'Slack rejects the message, or webhookUrl is not an incoming webhook',
        gone: 'check webhookUrl, and whether its channel still exists',
      },
      url,
      message: (digest) => slackMessage(digest, username, iconEmoji),
    }
    return new TeamChatTransportAdapter(format, common)
  }
}

function checkEmoji(option: string, value: unknown): string {
  if (typeof value === 'string' && /^:[^:\s]+:(?::skin-tone-[2-6]:)?$/.test(value)) return value
  throw invalidOption(option, "must be an emoji's name between colons, such as ':bar_chart:'", value)
}

/** Slack allows 3000 characters for each text, and rejects messages of more than about 13 000 in total. */
const MAX_TEXT = 2400

function slackMessage(digest: Digest, username: string, iconEmoji: string): object {
  const { level, name, more, error, details, origin, service } = digest
  const title = `*${level.toUpperCase()}* \`${escapeMrkdwn(code(name), 1200)}\`${more}`
  const fallback = `${service}: ${level.toUpperCase()} ${name}${more}${error === '' ? '' : `: ${error}`}`
  return {
    username,
    icon_emoji: iconEmoji,
    text: escapeMrkdwn(fallback, MAX_TEXT),
    blocks: [
      { type: 'section', text: mrkdwn(title) },
      ...details.map((detail) => ({
        type: 'section',
        text: mrkdwn(`\`\`\`\n${escapeMrkdwn(code(detail), MAX_TEXT)}\n\`\`\``),
      })),
      { type: 'context', elements: [mrkdwn(`\`${escapeMrkdwn(code(origin), 1200)}\``)] },
    ],
    unfurl_links: false,
    unfurl_media: false,
  }
}

/** With `verbatim`, Slack does not create links and mentions. */
function mrkdwn(text: string): object {
  return { type: 'mrkdwn', text, verbatim: true }
}

/**
 * Returns a string for a code span or block of Markdown, in which nothing else has a meaning. Backticks cannot be escaped
 * there, and are replaced with a similar character.
 */
function code(text: string): string {
  return text.replaceAll('`', '\u02cb')
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

/** Escapes a string for Slack. Cuts it to `max` UTF-16 units, but never within an escape sequence. */
function escapeMrkdwn(text: string, max: number): string {
  let escaped = ''
  for (const char of text) {
    const next = ESCAPES[char] ?? char
    if (escaped.length + next.length >= max) return `${escaped}…`
    escaped += next
  }
  return escaped
}

/** The options of `CommunityChatTransportAdapter.create()`. */
export interface CommunityChatTransportOptions extends ChatOptions {
  /** The URL of a Discord webhook. A query such as `thread_id` is kept. It is a secret, and is not part of error messages. */
  readonly webhookUrl: string
  /** The name of the sender: 1 to 80 characters, without `discord` or `clyde`. Defaults to `Kit Telemetry`. */
  readonly username?: string | undefined
  /** The URL of the sender's picture, `http:` or `https:`. Defaults to the picture of the webhook. */
  readonly avatarUrl?: string | undefined
}

const DISCORD_RULES = {
  webhookUrl: checkUrl,
  minLevel: optional(minLevel, 'warn'),
  groupMs,
  username: optional(checkUsername, 'Kit Telemetry'),
  avatarUrl: optional(checkUrl),
  ...CONNECTION_RULES,
} satisfies RulesFor<CommunityChatTransportOptions>

/**
 * Sends messages about events to a Discord channel, as one embed without mentions. Events within 50 ms, or during a pause,
 * become one message with the most severe event in full and the number of the others. At most one message is sent every two
 * seconds. It is sent again only after 429, at the time that Discord names. After 401, 403, 404, or 410, the transport stops.
 *
 * @example
 * ```ts
 * import { CommunityChatTransportAdapter, KitTelemetry } from 'mcp-gatekit/telemetry'
 *
 * KitTelemetry.create().addTransport(
 *   CommunityChatTransportAdapter.create({ webhookUrl: process.env.DISCORD_WEBHOOK_URL ?? '' }),
 * )
 * ```
 * @see docs/reference/transports.md
 */
export class CommunityChatTransportAdapter extends ChatTransport {
  /**
   * Creates the transport.
   * @param options the webhook, and which events to send.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` if an option is invalid. The message does not contain
   * the URL of the webhook.
   */
  static create(options: CommunityChatTransportOptions): CommunityChatTransportAdapter {
    const read = readTargetOptions('CommunityChatTransportAdapter.create', options, DISCORD_RULES, [
      'webhookUrl',
    ])
    const { webhookUrl, username, avatarUrl, ...common } = read
    const url = new URL(webhookUrl)
    // Without it, Discord responds before it has stored the message, and does not report failures.
    url.searchParams.set('wait', 'true')
    const format: ChatFormat = {
      type: 'community-chat',
      service: 'Discord',
      // Discord accepts 30 messages per minute in a channel.
      paceMs: 2000,
      advice: {
        refused: 'Discord rejects the message; a forum needs thread_id in webhookUrl',
        gone: 'check webhookUrl; the webhook may have been deleted',
      },
      waitMs: discordWaitMs,
      url: url.href,
      message: (digest) => discordMessage(digest, username, avatarUrl),
    }
    return new CommunityChatTransportAdapter(format, common)
  }
}

function checkUsername(option: string, value: unknown): string {
  const name = typeof value === 'string' ? value.trim() : ''
  if (name === '' || name.length > 80 || /discord|clyde|^(?:everyone|here)$/i.test(name)) {
    throw invalidOption(
      option,
      "must be a string of 1 to 80 characters that is not 'everyone' or 'here' and does not contain 'discord' or 'clyde'",
      value,
    )
  }
  return value as string
}

const COLORS = { debug: 0x95a5a6, info: 0x3498db, warn: 0xf1c40f, error: 0xe74c3c, fatal: 0x992d22 }

/** The message is within Discord's limits: 256 for a title, 4096 for a description, 2048 for a footer, 6000 in total. */
function discordMessage(digest: Digest, username: string, avatarUrl: string | undefined): object {
  const { level, name, more, details, origin, time } = digest
  const description = details.map((detail) => `\`\`\`\n${code(detail)}\n\`\`\``).join('')
  return {
    username,
    ...(avatarUrl === undefined ? {} : { avatar_url: avatarUrl }),
    embeds: [
      {
        title: `${level.toUpperCase()} \`${code(name)}\`${more}`,
        ...(description === '' ? {} : { description }),
        color: COLORS[level],
        footer: { text: origin },
        ...(time === undefined ? {} : { timestamp: time }),
      },
    ],
    allowed_mentions: { parse: [] },
  }
}

/** Returns the pause that Discord asks for: with 429 in the body, otherwise in the headers of the last message of a period. */
function discordWaitMs({ status, header, body }: ChatResponse): number | undefined {
  if (status === 429) return secondsToMs(readObject(body).retry_after)
  if (header('x-ratelimit-remaining') !== '0') return undefined
  return secondsToMs(Number(header('x-ratelimit-reset-after') ?? Number.NaN))
}

/** The options of `MessengerTransportAdapter.create()`. */
export interface MessengerTransportOptions extends ChatOptions {
  /** The minimum level. Events below it are ignored. Defaults to `error`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** The token of a Telegram bot. It is not part of error messages. */
  readonly botToken: string
  /** The chat that receives the messages: its number as a string, or `@channel`. The bot must be allowed to write to it. */
  readonly chatId: string
  /** The URL of the Bot API server. Defaults to `https://api.telegram.org`. */
  readonly apiRoot?: string | undefined
}

const TELEGRAM_RULES = {
  botToken: checkToken,
  chatId: secret,
  minLevel: optional(minLevel, 'error'),
  groupMs,
  apiRoot: optional(checkApiRoot, 'https://api.telegram.org'),
  ...CONNECTION_RULES,
} satisfies RulesFor<MessengerTransportOptions>

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
    const read = readTargetOptions('MessengerTransportAdapter.create', options, TELEGRAM_RULES, [
      'botToken',
      'chatId',
    ])
    const { botToken, chatId, apiRoot, ...common } = read
    const url = `${new URL(apiRoot).href.replace(/(?<!\/)\/+$/, '')}/bot${botToken}/sendMessage`
    let chat = chatId
    const format: ChatFormat = {
      type: 'messenger',
      service: 'Telegram',
      // Telegram accepts one message per second in a private chat, and 20 per minute in a group or channel.
      paceMs: /^\d/.test(chatId) ? 1000 : 3000,
      advice: {
        refused: 'check chatId, and that the bot is in that chat',
        gone: 'check botToken, and that the bot may write to the chat',
      },
      url,
      message: (digest) => telegramMessage(digest, chat),
      waitMs: (response) => secondsToMs(parameterOf(response, 'retry_after')),
      sendAgain: (response) => {
        const moved = parameterOf(response, 'migrate_to_chat_id')
        if (!Number.isSafeInteger(moved) || String(moved) === chat) return false
        chat = String(moved)
        return true
      },
    }
    return new MessengerTransportAdapter(format, common)
  }
}

function checkToken(option: string, value: unknown): string {
  const token = secret(option, value)
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

function parameterOf({ body }: ChatResponse, name: string): unknown {
  return (readObject(body).parameters as Readonly<Record<string, unknown>> | null | undefined)?.[name]
}

/**
 * Returns a message of at most 4096 characters. It is formatted by `entities`, so that nothing needs escaping. All strings of
 * an event are code, because Telegram creates links and mentions everywhere else.
 */
function telegramMessage(digest: Digest, chatId: string): object {
  const { level, name, more, details, origin } = digest
  const parts: readonly (readonly [text: string, type?: 'bold' | 'code' | 'pre'])[] = [
    [level.toUpperCase(), 'bold'],
    [' '],
    [name, 'code'],
    [more],
    ...details.flatMap((detail) => [['\n'], [detail, 'pre']] as const),
    ['\n'],
    [origin, 'code'],
  ]
  const entities: object[] = []
  let text = ''
  for (const [part, type] of parts) {
    // The offset is in UTF-16 units.
    if (type !== undefined) entities.push({ type, offset: text.length, length: part.length })
    text += part
  }
  return { chat_id: chatId, text, entities, link_preview_options: { is_disabled: true } }
}
