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
import { type ChatResponse, ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

/** The options of `CommunityChatTransportAdapter.create()`. */
export interface CommunityChatTransportOptions extends TargetConnectionOptions {
  /** The URL of a Discord webhook. A query such as `thread_id` is kept. It is a secret, and is not part of error messages. */
  readonly webhookUrl: string
  /** The minimum level. Events below it are ignored. Defaults to `warn`. */
  readonly minLevel?: TelemetryLevel | undefined
  /**
   * Groups events of the same name, level, and kind of error, in milliseconds. The first one is sent at once. The following ones
   * are counted, and one message with their number and the latest of them is sent after this time, or at a flush. Defaults to 0:
   * every event is sent.
   */
  readonly groupMs?: number | undefined
  /** The name of the sender: 1 to 80 characters, without `discord` or `clyde`. Defaults to `Kit Telemetry`. */
  readonly username?: string | undefined
  /** The URL of the sender's picture, `http:` or `https:`. Defaults to the picture of the webhook. */
  readonly avatarUrl?: string | undefined
}

const RULES = {
  webhookUrl: checkUrl,
  minLevel: optional(minLevel, 'warn'),
  groupMs: optional(telemetryOptions.milliseconds(0), 0),
  username: optional(checkUsername, 'Kit Telemetry'),
  avatarUrl: optional(checkUrl),
  ...CONNECTION_RULES,
} satisfies RulesFor<CommunityChatTransportOptions>

/** Discord accepts 30 messages per minute in a channel. */
const PACE_MS = 2000

const COLORS: Readonly<Record<TelemetryLevel, number>> = {
  debug: 0x95a5a6,
  info: 0x3498db,
  warn: 0xf1c40f,
  error: 0xe74c3c,
  fatal: 0x992d22,
}

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
    const { webhookUrl, minLevel, groupMs, username, avatarUrl, ...connection } = readTargetOptions(
      'CommunityChatTransportAdapter.create',
      options,
      RULES,
      ['webhookUrl'],
    )
    const url = new URL(webhookUrl)
    // Without it, Discord responds before it has stored the message, and does not report failures.
    url.searchParams.set('wait', 'true')
    return new CommunityChatTransportAdapter({
      connection,
      type: 'community-chat',
      service: 'Discord',
      minLevel,
      groupMs,
      paceMs: PACE_MS,
      url: url.href,
      message: (digest) => discordMessage(digest, username, avatarUrl),
      waitMs,
      advice: {
        refused: 'Discord rejects the message; a forum needs thread_id in webhookUrl',
        gone: 'check webhookUrl; the webhook may have been deleted',
      },
    })
  }
}

function checkUsername(option: string, value: unknown): string {
  const name = typeof value === 'string' ? value.trim() : ''
  if (name === '' || name.length > 80 || /discord|clyde|^(?:everyone|here)$/i.test(name)) {
    throw telemetryOptions.invalidOption(
      option,
      "must be a string of 1 to 80 characters that is not 'everyone' or 'here' and does not contain 'discord' or 'clyde'",
      value,
    )
  }
  return value as string
}

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

/** Returns a string for a code span or block, without Markdown and mentions. Backticks become a similar character. */
function code(text: string): string {
  return text.replaceAll('`', '\u02cb')
}

/** Returns the pause that Discord asks for: with 429 in the body, otherwise in the headers of the last message of a period. */
function waitMs({ status, header, body }: ChatResponse): number | undefined {
  if (status === 429) return secondsToMs(readObject(body).retry_after)
  if (header('x-ratelimit-remaining') !== '0') return undefined
  return secondsToMs(Number(header('x-ratelimit-reset-after') ?? Number.NaN))
}
