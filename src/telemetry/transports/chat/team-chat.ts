import { optional, type RulesFor } from '../../../options/option-rules.ts'
import type { TelemetryLevel } from '../../levels.ts'
import { telemetryOptions } from '../../options.ts'
import {
  CONNECTION_RULES,
  checkUrl,
  readTargetOptions,
  type TargetConnectionOptions,
} from '../http/target-options.ts'
import { minLevel } from '../transport-options.ts'
import { ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

const { invalidOption, milliseconds, text } = telemetryOptions

/** The options of `TeamChatTransportAdapter.create()`. */
export interface TeamChatTransportOptions extends TargetConnectionOptions {
  /** The URL of a Slack incoming webhook. It is a secret, and is not part of error messages. */
  readonly webhookUrl: string
  /** The minimum level. Events below it are ignored. Defaults to `warn`. */
  readonly minLevel?: TelemetryLevel | undefined
  /**
   * Groups events of the same name, level, and kind of error, in milliseconds. The first one is sent at once. The following ones
   * are counted, and one message with their number and the latest of them is sent after this time, or at a flush. Defaults to 0:
   * every event is sent.
   */
  readonly groupMs?: number | undefined
  /** The name of the sender. Only legacy webhooks support it. Defaults to `Kit Telemetry`. */
  readonly username?: string | undefined
  /** The icon of the sender, as an emoji name between colons. Only legacy webhooks support it. Defaults to `:bar_chart:`. */
  readonly iconEmoji?: string | undefined
}

const RULES = {
  webhookUrl: checkUrl,
  minLevel: optional(minLevel, 'warn'),
  groupMs: optional(milliseconds(0), 0),
  username: optional(text, 'Kit Telemetry'),
  iconEmoji: optional(checkEmoji, ':bar_chart:'),
  ...CONNECTION_RULES,
} satisfies RulesFor<TeamChatTransportOptions>

/** Slack accepts about one message per second. */
const PACE_MS = 1000

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
    const { webhookUrl, minLevel, groupMs, username, iconEmoji, ...connection } = readTargetOptions(
      'TeamChatTransportAdapter.create',
      options,
      RULES,
      ['webhookUrl'],
    )
    return new TeamChatTransportAdapter({
      connection,
      type: 'team-chat',
      service: 'Slack',
      minLevel,
      groupMs,
      paceMs: PACE_MS,
      url: webhookUrl,
      message: (digest) => slackMessage(digest, username, iconEmoji),
      advice: {
        refused: 'Slack rejects the message, or webhookUrl is not an incoming webhook',
        gone: 'check webhookUrl, and whether its channel still exists',
      },
    })
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
  const title = `*${level.toUpperCase()}* \`${code(name, 1200)}\`${more}`
  const fallback = `${service}: ${level.toUpperCase()} ${name}${more}${error === '' ? '' : `: ${error}`}`
  return {
    username,
    icon_emoji: iconEmoji,
    text: escapeMrkdwn(fallback, MAX_TEXT),
    blocks: [
      { type: 'section', text: mrkdwn(title) },
      ...details.map((detail) => ({
        type: 'section',
        text: mrkdwn(`\`\`\`\n${code(detail, MAX_TEXT)}\n\`\`\``),
      })),
      { type: 'context', elements: [mrkdwn(`\`${code(origin, 1200)}\``)] },
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
 * Returns a string for a code span or block, in which `*`, `_`, and `~` have no meaning. Backticks cannot be escaped there,
 * and are replaced with a similar character.
 */
function code(text: string, max: number): string {
  return escapeMrkdwn(text.replaceAll('`', '\u02cb'), max)
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
