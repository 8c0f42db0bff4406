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
import { type ChatResponse, ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

/** What `CommunityChatTransportAdapter.create()` takes. */
export interface CommunityChatTransportOptions extends TargetConnectionOptions {
  /** A Discord webhook; a query such as `thread_id` is kept. Whoever knows it can post, so that it appears in no error. */
  readonly webhookUrl: string
  /** Events below it are left out. Default `warn`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** Who seems to write: 1 to 80 characters, without `discord` or `clyde`. Default `Kit Telemetry`. */
  readonly username?: string | undefined
  /** The picture beside the messages, `http:` or `https:`. Default the webhook's own. */
  readonly avatarUrl?: string | undefined
}

/** Discord takes 30 messages a minute in a channel. */
const PACE_MS = 2000

const COLORS: Readonly<Record<TelemetryLevel, number>> = {
  debug: 0x95a5a6,
  info: 0x3498db,
  warn: 0xf1c40f,
  error: 0xe74c3c,
  fatal: 0x992d22,
}

/**
 * Tells a Discord channel of events, one embed a message, mentioning nobody. Events within 50 ms, or while Discord must
 * be left alone, become one message: the most severe in full, the others counted. A message is sent at most every two
 * seconds, and once more only after 429, at the time that Discord names. At 401, 403, 404 and 410 the transport stops
 * for good.
 *
 * @example
 * CommunityChatTransportAdapter.create({ webhookUrl: 'https://discord.com/api/webhooks/…' })
 */
export class CommunityChatTransportAdapter extends ChatTransport {
  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be. The webhook's URL is in
   * no message.
   */
  static create(options: CommunityChatTransportOptions): CommunityChatTransportAdapter {
    const {
      webhookUrl,
      minLevel = 'warn',
      username = 'Kit Telemetry',
      avatarUrl,
      ...connection
    } = readTargetOptions('CommunityChatTransportAdapter', options, ['webhookUrl'], {
      webhookUrl: checkUrl,
      minLevel: checkMinLevel,
      username: checkUsername,
      avatarUrl: checkUrl,
      ...CONNECTION_CHECKS,
    })
    const url = new URL(webhookUrl)
    // Without it, Discord answers before it has kept the message, and tells of no failure.
    url.searchParams.set('wait', 'true')
    return new CommunityChatTransportAdapter({
      adapter: 'CommunityChatTransportAdapter',
      connection,
      type: 'community-chat',
      service: 'Discord',
      minLevel,
      paceMs: PACE_MS,
      url: url.href,
      message: (digest) => discordMessage(digest, username, avatarUrl),
      waitMs,
      advice: {
        refused: 'it refuses the message; a forum needs thread_id in webhookUrl',
        gone: 'check webhookUrl; the webhook may have been deleted',
      },
    })
  }
}

function checkUsername(option: string, value: unknown): void {
  const name = typeof value === 'string' ? value.trim() : ''
  if (name === '' || name.length > 80 || /discord|clyde|^(?:everyone|here)$/i.test(name)) {
    throw telemetryOptions.invalidOption(
      option,
      "must be a string of 1 to 80 characters that is not 'everyone' or 'here' and does not contain 'discord' or 'clyde'",
      value,
    )
  }
}

/** Within Discord's limits: 256 for a title, 4096 for a description, 2048 for a footer, 6000 in all. */
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

/** Text for a code span or block, where markdown and mentions mean nothing. Back-ticks become their look-alike. */
function code(text: string): string {
  return text.replaceAll('`', '\u02cb')
}

/** What Discord says of its limits: with 429 in the body, else in the headers when the last message of a period was taken. */
function waitMs({ status, header, body }: ChatResponse): number | undefined {
  if (status === 429) return secondsToMs(readObject(body).retry_after)
  if (header('x-ratelimit-remaining') !== '0') return undefined
  return secondsToMs(Number(header('x-ratelimit-reset-after') ?? Number.NaN))
}
