import { expect } from 'chai'
import { TypeRule } from '../../../src/telemetry/events/actor-types.ts'

describe('TypeRule', () => {
  const types = { user: { required: true }, admin: { required: true }, bot: { required: false } }

  for (const [kind, value, code, message] of [
    ['actor', {}, 'TELEMETRY_INVALID_ACTOR', "event 'x' has an actor without a type"],
    ['scope', { type: 5 }, 'TELEMETRY_INVALID_SCOPE', "event 'x' has a scope without a type"],
    [
      'actor',
      { type: 'usr' },
      'TELEMETRY_INVALID_ACTOR',
      "event 'x' has the actor type 'usr', which is not registered. Did you mean 'user'?",
    ],
    [
      'scope',
      { type: '__proto__' },
      'TELEMETRY_INVALID_SCOPE',
      /has the scope type '__proto__', which is not registered/,
    ],
    [
      'actor',
      undefined,
      'TELEMETRY_INVALID_ACTOR',
      "event 'x' must have an actor of the type 'user' or 'admin'",
    ],
    [
      'scope',
      { type: 'bot' },
      'TELEMETRY_INVALID_SCOPE',
      "event 'x' must have a scope of the type 'user' or 'admin'",
    ],
  ] as const) {
    it(`the ${kind} ${JSON.stringify(value)} is refused with ${code}: ${message}`, () => {
      const error = new TypeRule(kind, types).check('x', value)
      expect(error).to.include({ code })
      const help = `Run "npx mcp-gatekit explain ${code.toLowerCase()}" for help.`
      if (typeof message === 'string')
        expect(error?.message).to.equal(`${message}${message.endsWith('?') ? '' : '.'} ${help}`)
      else expect(error?.message).to.match(message)
    })
  }

  it('a required type is accepted, and without required types also none', () => {
    expect(new TypeRule('actor', types).check('x', { type: 'admin' })).to.equal(undefined)
    for (const value of [undefined, { type: 'bot' }])
      expect(new TypeRule('scope', { bot: { required: false } }).check('x', value)).to.equal(undefined)
  })
})
