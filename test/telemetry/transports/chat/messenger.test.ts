import { expect } from 'chai'
import { MessengerTransportAdapter, type MessengerTransportOptions } from '../../../../src/telemetry/index.ts'
import { anEvent, startTelegram, type Target } from '../../../support/chat-services.ts'
import { behavesAsChat, expectGap, SECRET } from '../../../support/telemetry/chat-behavior.ts'

const TOKEN = `123456:${SECRET}_x-Y`

function create(target: Target, options: Partial<MessengerTransportOptions> = {}) {
  return MessengerTransportAdapter.create({
    botToken: TOKEN,
    chatId: '42',
    apiRoot: target.origin,
    ...options,
  })
}

const start = () => startTelegram(TOKEN)

describe('MessengerTransportAdapter', () => {
  behavesAsChat({
    start,
    create,
    source: ({ origin }) =>
      `MessengerTransportAdapter.create({ botToken: '${TOKEN}', chatId: '42', apiRoot: '${origin}' })`,
    paceMs: 1000,
    minLevel: 'error',
    shown: ({ text }) => text,
    putOff: (retry_after) => ({
      status: 429,
      body: { ok: false, error_code: 429, description: 'Too Many Requests', parameters: { retry_after } },
    }),
  })

  async function message(event: Parameters<typeof anEvent>[0]) {
    const target = await start()
    await create(target).handle(anEvent(event))
    return target.taken[0]
  }

  it('MessengerTransportAdapter sends a text with entities in UTF-16 units', async () => {
    const { chat_id, text, entities, link_preview_options } = await message({
      name: 'a😀b',
      attributes: { markup: '<b>*_`' },
      error: { name: 'Error', message: 'declined' },
    })
    expect(text).to.equal(
      'ERROR a😀b\nError: declined\nmarkup: <b>*_`\nbilling · test · ses_0 · 2026-11-20T12:00:00.123Z',
    )
    const marked = entities.map(({ type, offset, length }: any) => [
      type,
      text.slice(offset, offset + length),
    ])
    expect(marked).to.deep.equal([
      ['bold', 'ERROR'],
      ['code', 'a😀b'],
      ['pre', 'Error: declined'],
      ['pre', 'markup: <b>*_`'],
      ['code', 'billing · test · ses_0 · 2026-11-20T12:00:00.123Z'],
    ])
    expect({ chat_id, link_preview_options }).to.deep.equal({
      chat_id: '42',
      link_preview_options: { is_disabled: true },
    })
  })

  it('MessengerTransportAdapter accepts an apiRoot with a path', async () => {
    const target = await start()
    target.answers.push({ status: 200 })
    await create(target, { apiRoot: `${target.origin}/telegram//` }).handle(anEvent())
    expect(target.requests[0]?.path).to.equal(`/telegram/bot${TOKEN}/sendMessage`)
  })

  it('MessengerTransportAdapter follows a group that has become a supergroup, and keeps its rate limit', async () => {
    const target = await start()
    target.answers.push({
      status: 400,
      body: {
        ok: false,
        error_code: 400,
        description: 'Bad Request: group chat was upgraded to a supergroup chat',
        parameters: { migrate_to_chat_id: -1001234567890 },
      },
    })
    const transport = create(target, { chatId: '-5' })
    await transport.handle(anEvent())
    expect(target.requests.map(({ json }) => json.chat_id)).to.deep.equal(['-5', '-1001234567890'])
    expectGap(target, 3)
  })
})
