import { expect } from 'chai'
import * as kit from '../../../src/index.ts'
import * as telemetry from '../../../src/telemetry/index.ts'

const inTelemetry: Readonly<Record<string, unknown>> = { ...telemetry }
const inKit: Readonly<Record<string, unknown>> = { ...kit }

describe('further names of transports', () => {
  for (const [further, name] of [
    ['SlackTransportAdapter', 'TeamChatTransportAdapter'],
    ['DiscordTransportAdapter', 'CommunityChatTransportAdapter'],
    ['TelegramTransportAdapter', 'MessengerTransportAdapter'],
    ['SentryTransportAdapter', 'ErrorTrackerTransportAdapter'],
    ['RedisStreamTransportAdapter', 'StoreStreamTransportAdapter'],
  ] as const) {
    it(`${further} is ${name}, in both entry points`, () => {
      expect(inTelemetry[further]).to.be.a('function').and.equal(inTelemetry[name])
      expect(inKit[further]).to.equal(inTelemetry[name])
    })
  }

  it('a further name is also the name of a type', () => {
    const create = (webhookUrl: string): telemetry.SlackTransportAdapter =>
      telemetry.SlackTransportAdapter.create({ webhookUrl })
    expect(create('https://hooks.example.com/T0')).to.be.instanceOf(telemetry.TeamChatTransportAdapter)
  })
})
