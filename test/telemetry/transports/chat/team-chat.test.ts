import { expect } from 'chai'
import { TeamChatTransportAdapter, type TeamChatTransportOptions } from '../../../../src/telemetry/index.ts'
import { anEvent, startSlack, type Target } from '../../../support/chat-services.ts'
import { behavesAsChat, expectGap, SECRET } from '../../../support/telemetry/chat-behavior.ts'

const webhookUrl = (target: Target) => `${target.origin}/services/T0/B0/${SECRET}`

const unescaped = (text: string) =>
  text.replaceAll('&lt;', '<').replaceAll('&gt;', '>').replaceAll('&amp;', '&')

describe('TeamChatTransportAdapter', () => {
  behavesAsChat({
    start: startSlack,
    create: (target) => TeamChatTransportAdapter.create({ webhookUrl: webhookUrl(target) }),
    source: (target) => `TeamChatTransportAdapter.create({ webhookUrl: '${webhookUrl(target)}' })`,
    paceMs: 1000,
    minLevel: 'warn',
    shown: ({ blocks }) =>
      blocks.map((block: any) => unescaped(block.text?.text ?? block.elements[0].text)).join('\n'),
    putOff: (seconds) => ({ status: 429, headers: { 'retry-after': String(seconds) }, body: 'rate_limited' }),
  })

  async function message(
    event: Parameters<typeof anEvent>[0],
    options: Partial<TeamChatTransportOptions> = {},
  ) {
    const target = await startSlack()
    await TeamChatTransportAdapter.create({ webhookUrl: webhookUrl(target), ...options }).handle(
      anEvent(event),
    )
    expect(target.requests[0]?.path).to.equal(`/services/T0/B0/${SECRET}`)
    return target.taken[0]
  }

  it('TeamChatTransportAdapter sends a title, the details, the origin, and a fallback', async () => {
    expect(
      await message({ attributes: { amount: 1 }, error: { name: 'Error', message: 'a < b' } }),
    ).to.deep.equal({
      username: 'Kit Telemetry',
      icon_emoji: ':bar_chart:',
      text: 'billing: ERROR billing.invoice.failed: Error: a &lt; b',
      blocks: [
        section('*ERROR* `billing.invoice.failed`'),
        section('```\nError: a &lt; b\n```'),
        section('```\namount: 1\n```'),
        {
          type: 'context',
          elements: [
            { type: 'mrkdwn', text: '`billing · test · ses_0 · 2026-11-20T12:00:00.123Z`', verbatim: true },
          ],
        },
      ],
      unfurl_links: false,
      unfurl_media: false,
    })
  })

  it('TeamChatTransportAdapter sends username and emoji', async () => {
    expect(await message({}, { username: 'Alerts', iconEmoji: ':fire:' })).to.include({
      username: 'Alerts',
      icon_emoji: ':fire:',
    })
  })

  it('an event cannot mention, link, or format in a message of TeamChatTransportAdapter', async () => {
    const sent = await message({ name: '<!channel>`*x*`', attributes: { '`': '```<@U1>&' } })
    expect(sent.blocks.slice(0, 2)).to.deep.equal([
      section('*ERROR* `&lt;!channel&gt;ˋ*x*ˋ`'),
      section('```\nˋ: ˋˋˋ&lt;@U1&gt;&amp;\n```'),
    ])
    expect(JSON.stringify(sent)).not.to.match(/[<>]/)
  })

  it('TeamChatTransportAdapter waits before the next message as long as a 500 response asks for', async function () {
    this.timeout(60_000)
    const target = await startSlack()
    target.answers.push({ status: 500, headers: { 'retry-after': '2' } })
    const transport = TeamChatTransportAdapter.create({ webhookUrl: webhookUrl(target) })
    await Promise.resolve(transport.handle(anEvent())).catch(() => undefined)
    await transport.handle(anEvent())
    expectGap(target, 2)
  })
})

const section = (text: string) => ({ type: 'section', text: { type: 'mrkdwn', text, verbatim: true } })
