import type { TelemetryLevel } from '../../levels.ts'
import { telemetryOptions } from '../../options.ts'
import {
  CONNECTION_CHECKS,
  checkMinLevel,
  checkUrl,
  readTargetOptions,
  type TargetConnectionOptions,
} from '../http/target-options.ts'
import { ChatTransport } from './chat.ts'
import type { Digest } from './digest.ts'

const { checkText, invalidOption } = telemetryOptions

/** What `TeamChatTransportAdapter.create()` takes. */
export interface TeamChatTransportOptions extends TargetConnectionOptions {
  /** A Slack incoming webhook. Whoever knows it can post, so that it appears in no error. */
  readonly webhookUrl: string
  /** Events below it are left out. Default `warn`. */
  readonly minLevel?: TelemetryLevel | undefined
  /** Who seems to write. Slack heeds it for legacy webhooks only. Default `Kit Telemetry`. */
  readonly username?: string | undefined
  /** An emoji between colons. Slack heeds it for legacy webhooks only. Default `:bar_chart:`. */
  readonly iconEmoji?: string | undefined
}

/** Slack takes about one message a second. */
const PACE_MS = 1000

/**
 * Tells a Slack channel of events, with Block Kit. Events within 50 ms, or while Slack must be left alone, become one
 * message: the most severe in full, the others counted. A message is sent at most once a second, and once more only
 * after 429, at the time that Slack names. At 401, 403, 404 and 410 the transport stops for good.
 *
 * @example
 * TeamChatTransportAdapter.create({ webhookUrl: 'https://hooks.slack.com/services/…' })
 */
export class TeamChatTransportAdapter extends ChatTransport {
  /**
   * Makes the transport.
   * @throws {KitTelemetryError} `TELEMETRY_CONFIGURATION_INVALID` for an option that cannot be. The webhook's URL is in
   * no message.
   */
  static create(options: TeamChatTransportOptions): TeamChatTransportAdapter {
    const {
      webhookUrl,
      minLevel = 'warn',
      username = 'Kit Telemetry',
      iconEmoji = ':bar_chart:',
      ...connection
    } = readTargetOptions('TeamChatTransportAdapter', options, ['webhookUrl'], {
      webhookUrl: checkUrl,
      minLevel: checkMinLevel,
      username: checkText,
      iconEmoji: checkEmoji,
      ...CONNECTION_CHECKS,
    })
    return new TeamChatTransportAdapter({
      adapter: 'TeamChatTransportAdapter',
      connection,
      type: 'team-chat',
      service: 'Slack',
      minLevel,
      paceMs: PACE_MS,
      url: webhookUrl,
      message: (digest) => slackMessage(digest, username, iconEmoji),
      advice: {
        refused: 'it refuses the message, or webhookUrl is no incoming webhook',
        gone: 'check webhookUrl, and whether its channel still exists',
      },
    })
  }
}

function checkEmoji(option: string, value: unknown): void {
  if (typeof value !== 'string' || !/^:[^:\s]+:(?::skin-tone-[2-6]:)?$/.test(value)) {
    throw invalidOption(option, "must be an emoji's name between colons, such as ':bar_chart:'", value)
  }
}

/** Slack's limit is 3000 for each text; a message of more than some 13 000 in all is refused. */
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

/** `verbatim`: Slack makes no links and mentions of its own. */
function mrkdwn(text: string): object {
  return { type: 'mrkdwn', text, verbatim: true }
}

/**
 * Text for a code span or block, the only place where `*`, `_` and `~` mean nothing. Back-ticks cannot be escaped
 * there, and become their look-alike.
 */
function code(text: string, max: number): string {
  return escapeMrkdwn(text.replaceAll('`', '\u02cb'), max)
}

const ESCAPES: Readonly<Record<string, string>> = { '&': '&amp;', '<': '&lt;', '>': '&gt;' }

/** Escapes as Slack asks to, in at most `max` UTF-16 units, with no escape cut. */
function escapeMrkdwn(text: string, max: number): string {
  let escaped = ''
  for (const char of text) {
    const next = ESCAPES[char] ?? char
    if (escaped.length + next.length >= max) return `${escaped}…`
    escaped += next
  }
  return escaped
}
