import { expect } from 'chai'
import {
  CommunityChatTransportAdapter,
  type CommunityChatTransportOptions,
} from '../../../../src/telemetry/index.ts'
import { anEvent, startDiscord, type Target } from '../../../support/chat-services.ts'
import { behavesAsChat, expectGap, SECRET } from '../../../support/telemetry/chat-behavior.ts'

const webhookUrl = (target: Target) => `${target.origin}/api/webhooks/1/${SECRET}`

describe('CommunityChatTransportAdapter', () => {
  behavesAsChat({
    start: startDiscord,
    create: (target) => CommunityChatTransportAdapter.create({ webhookUrl: webhookUrl(target) }),
    source: (target) => `CommunityChatTransportAdapter.create({ webhookUrl: '${webhookUrl(target)}' })`,
    paceMs: 2000,
    minLevel: 'warn',
    shown: ({ embeds: [embed] }) => [embed.title, embed.description, embed.footer.text].join('\n'),
    putOff: (retry_after) => ({
      status: 429,
      headers: { 'retry-after': '1' },
      body: { message: 'You are being rate limited.', retry_after, global: false },
    }),
  })

  async function message(
    event: Parameters<typeof anEvent>[0],
    options: Partial<CommunityChatTransportOptions> = {},
  ) {
    const target = await startDiscord()
    const transport = CommunityChatTransportAdapter.create({
      webhookUrl: `${webhookUrl(target)}?thread_id=5&wait=false`,
      ...options,
    })
    await transport.handle(anEvent(event))
    expect(target.requests[0]?.path).to.equal(`/api/webhooks/1/${SECRET}?thread_id=5&wait=true`)
    return target.taken[0]
  }

  it('a message of CommunityChatTransportAdapter is one embed without mentions', async () => {
    expect(
      await message({ attributes: { amount: 1 }, error: { name: 'Error', message: 'a < b' } }),
    ).to.deep.equal({
      username: 'Kit Telemetry',
      embeds: [
        {
          title: 'ERROR `billing.invoice.failed`',
          description: '```\nError: a < b\n``````\namount: 1\n```',
          color: 0xe74c3c,
          footer: { text: 'billing · test · ses_0 · 2026-11-20T12:00:00.123Z' },
          timestamp: '2026-11-20T12:00:00.123Z',
        },
      ],
      allowed_mentions: { parse: [] },
    })
  })

  it('CommunityChatTransportAdapter takes a username of 80 characters', async () => {
    const username = 'x'.repeat(80)
    expect(await message({}, { username })).to.include({ username })
  })

  it('CommunityChatTransportAdapter sends username and avatar', async () => {
    const avatarUrl = 'https://example.org/a.png'
    expect(await message({}, { username: 'Alerts', avatarUrl })).to.include({
      username: 'Alerts',
      avatar_url: avatarUrl,
    })
  })

  it('CommunityChatTransportAdapter leaves out a time that Discord would reject', async () => {
    expect((await message({ time: 'tomorrow' })).embeds[0]).not.to.have.property('timestamp')
  })

  it('an event cannot leave its code block in a message of CommunityChatTransportAdapter', async () => {
    const [embed] = (await message({ name: '`@everyone`', attributes: { x: '```\n@here' } })).embeds
    expect(embed.title).to.equal('ERROR `ˋ@everyoneˋ`')
    expect(embed.description).to.equal('```\nx: ˋˋˋ\\n@here\n```')
  })

  it('CommunityChatTransportAdapter waits if the headers of a response say that no more may be sent for now', async () => {
    const target = await startDiscord()
    target.answers.push({
      status: 200,
      headers: { 'x-ratelimit-remaining': '0', 'x-ratelimit-reset-after': '2.6' },
    })
    const transport = CommunityChatTransportAdapter.create({ webhookUrl: webhookUrl(target) })
    await transport.handle(anEvent())
    await transport.handle(anEvent())
    expectGap(target, 2.6)
  })
})
