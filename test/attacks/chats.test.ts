import { expect } from 'chai'
import fc from 'fast-check'
import {
  CommunityChatTransportAdapter,
  MessengerTransportAdapter,
  TeamChatTransportAdapter,
  type TelemetryEnvelope,
  type TelemetryTransport,
} from '../../src/telemetry/index.ts'
import { anyCharacter } from '../support/any-character.ts'
import { itAtOnce } from '../support/at-once.ts'
import { anEvent, startDiscord, startSlack, startTelegram, type Target } from '../support/chat-services.ts'
import { runs } from '../support/runs.ts'

/** The parts of a message that the service interprets, for example as links or mentions. */
type LiveText = (message: any) => string

interface Chat {
  readonly start: () => Promise<Target>
  readonly create: (target: Target) => TelemetryTransport
  readonly liveText: LiveText
}

/** The common part of all messages. */
const FIXED = /^(?:\s|\*|ERROR|FATAL| and \d+ more)*$/

const CHATS: Readonly<Record<string, Chat>> = {
  Slack: {
    start: startSlack,
    create: ({ origin }) => TeamChatTransportAdapter.create({ webhookUrl: `${origin}/services/T0` }),
    liveText({ text, blocks }) {
      // The fallback is the text of a notification. Slack interprets it as mrkdwn too.
      expect(text).not.to.match(/[<>]/)
      expect(text.replace(/&(?:amp|lt|gt);/g, '')).not.to.include('&')
      const texts: { type: string; text: string; verbatim: boolean }[] = blocks.flatMap(
        ({ text, elements }: any) => elements ?? [text],
      )
      for (const { type, text, verbatim } of texts) {
        expect({ type, verbatim }).to.deep.equal({ type: 'mrkdwn', verbatim: true })
        expect(text).not.to.match(/[<>]/)
        expect(text.replace(/&(?:amp|lt|gt);/g, '')).not.to.include('&')
      }
      return texts.map(({ text }) => withoutCode(text)).join('')
    },
  },
  Discord: {
    start: startDiscord,
    create: ({ origin }) =>
      CommunityChatTransportAdapter.create({ webhookUrl: `${origin}/api/webhooks/1/x` }),
    liveText({ content, embeds, allowed_mentions }) {
      expect(content).to.equal(undefined)
      expect(allowed_mentions).to.deep.equal({ parse: [] })
      expect(embeds).to.have.length(1)
      // The service does not interpret the footer.
      const { title, description = '', footer, color, timestamp, ...rest } = embeds[0]
      expect(rest).to.deep.equal({})
      expect(timestamp ?? '2026-11-20T12:00:00.123Z').to.match(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
      return withoutCode(title) + withoutCode(description)
    },
  },
  Telegram: {
    start: () => startTelegram('1:x'),
    create: ({ origin }) =>
      MessengerTransportAdapter.create({ botToken: '1:x', chatId: '1', apiRoot: origin }),
    liveText({ text, entities, parse_mode, link_preview_options }) {
      expect(parse_mode).to.equal(undefined)
      expect(link_preview_options).to.deep.equal({ is_disabled: true })
      let live = ''
      let at = 0
      for (const { type, offset, length } of entities) {
        expect(type).to.be.oneOf(['bold', 'code', 'pre'])
        if (type === 'bold') continue
        live += text.slice(at, offset)
        at = offset + length
      }
      return live + text.slice(at)
    },
  },
}

/** Returns Markdown without its code blocks and code spans. */
function withoutCode(text: string): string {
  return text.replace(/```\n[^`]*\n```/g, '').replace(/`[^`\n]+`/g, '')
}

const PAYLOADS: Readonly<Record<string, string>> = {
  'a mention of all users': '@everyone @here @channel <!channel> <!here> <!everyone>',
  'a mention of a user, a role, or a group': '@ada <@U1> <@!1> <@&1> <!subteam^S1> <#C1>',
  'a bare link': 'https://evil.example/login www.evil.example evil.example ada@evil.example',
  'a masked link': '[your account](https://evil.example) <https://evil.example|your account>',
  'a link with another scheme':
    'tg://user?id=1 slack://open mailto:ada@evil.example t.me/evil javascript:alert(1)',
  'a command or a tag': '/start /kick@bot #hashtag $TSLA +15550100',
  markdown: '*bold* _it_ ~no~ ||spoiler|| **b** __u__ # title\n> quote\n- item\n-# small',
  HTML: '<b>bold</b><a href="https://evil.example">x</a><tg-spoiler>x</tg-spoiler>&lt;&amp;',
  'the end of a code span': '` @everyone `` <!channel> ` [x](https://evil.example)',
  'the end of a code block': '```\n@everyone <!channel> https://evil.example\n```',
  'look-alikes of back-ticks': '\u02cb\uff40\u1fef @everyone \u2035',
  'escaped back-ticks': '\\` @everyone \\``` <!channel> \\\\`',
  'an emoji or a time': ':bell: <:x:1> <a:x:1> <t:1:R> </cmd:1> <!date^1^{date}|x>',
  'characters that reverse or hide text': '\u202e@everyone\u2066\u200b\u2028`\u0000<!channel>\ufeff',
  'half a character': '\ud83d`@everyone\udc00<!channel>',
  'more text than a message can hold': '&<`\ud83d\ude00\n'.repeat(5_000),
}

/** Returns an event in which every string is `text`. */
function eventOf(text: string): TelemetryEnvelope {
  const name = text.replace(/[\s:\p{Cc}]/gu, '').slice(0, 256) || 'x'
  return anEvent({
    name,
    level: 'error',
    time: `2026-11-20 (${text.replace(/[()]/g, '')})`,
    service: text,
    environment: text,
    version: text,
    sessionId: text,
    actor: { type: text, id: text, tags: { [text]: text } },
    scope: { type: text, id: text },
    attributes: { [text]: text, nested: { [text]: [text] } },
    error: { name: text, message: text, code: text, stack: `${text}: ${text}\n    at ${text}` },
    source: { causer: text, file: text, line: 1 },
  })
}

async function sent(chat: Chat, events: readonly TelemetryEnvelope[]): Promise<any> {
  const target = await chat.start()
  const transport = chat.create(target)
  await Promise.all(events.map((event) => transport.handle(event)))
  expect(target.taken).to.have.length(1)
  return target.taken[0]
}

describe('texts in chats', () => {
  itAtOnce(
    8,
    Object.entries(CHATS).flatMap(([service, chat]) =>
      Object.entries(PAYLOADS).map(([what, payload]) => [
        `texts in chats: ${what} in every string of an event, on ${service}: it is shown as code, without an effect`,
        async () => {
          const other = anEvent({ name: eventOf(payload).name, level: 'fatal' })
          for (const events of [[eventOf(payload)], [eventOf(payload), other]])
            expect(chat.liveText(await sent(chat, events))).to.match(FIXED)
        },
      ]),
    ),
  )
})

describe('strings in chats', () => {
  for (const [service, chat] of Object.entries(CHATS)) {
    it(`the strings of an event have no effect on ${service}, whatever they contain`, async function () {
      this.timeout(60_000)
      const text = fc
        .array(
          fc.oneof(
            fc.constantFrom(...Object.values(PAYLOADS), '`', '\n', '\\'),
            fc.string({ unit: anyCharacter }),
          ),
        )
        .map((parts) => parts.join(''))
      await fc.assert(
        fc.asyncProperty(text, async (text) => {
          expect(chat.liveText(await sent(chat, [eventOf(text)]))).to.match(FIXED)
        }),
        { numRuns: runs(50) },
      )
    })
  }
})
